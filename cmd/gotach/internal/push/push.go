// Package push sends the profiles in a directory to other programs. A program that is profiled
// writes files and deletes old ones; these files are the buffer, so the program itself sends
// nothing.
//
// A [Target] is where profiles go. It gets a [Batch] of one or several files, and says with the
// kind of its error whether the batch is to come again, to be cut, or never to come again. What
// comes twice after a crash has the same ids, so that a target or what is behind it recognises it.
//
// A [Pusher] looks into the directory now and then. It sends files that nobody writes to any more,
// the oldest ones first, and remembers in a cursor beside them what the target has. If a batch
// fails for now, it waits, tries the next one and comes back to the first one later, so that a file
// that a target cannot handle does not hold up the others.
//
// # Files
//
//   - push.go, send.go: the Pusher: what it sends when, and what it does after errors
//   - scan.go, file.go: the files of the directory; folder.go opens them safely
//   - cursor.go, park.go: what the target has, and what it refused
//   - target.go: what a target is; open.go: which ones there are
//   - otlp.go, pyroscope.go, tables.go: the targets; http.go, redact.go: what those that are HTTP
//     servers share
//   - metrics.go: counters for Prometheus
package push

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Options say what a Pusher does. The zero value of all but the first three is the usual choice.
type Options struct {
	Dir    string
	Target Target
	Name   string // of the target, in messages

	Key   string // of the target: tells cursors apart; "": Name
	State string // folder for the cursor and for what is refused; "": Dir, to which nobody else may write then

	Once     bool          // until all files that are finished at the start are sent
	Interval time.Duration // between two looks into the directory; 0: 10 s
	// Backoff and MaxBackoff are the bounds of the time to wait after a failure, from which the
	// actual time is drawn at random: the first one doubles with each failure until it is the
	// second one. 0: 1 s and 1 min.
	Backoff, MaxBackoff time.Duration
	Tries               int           // with Once: give up after so many failures one after the other; 0: 8
	GiveUp              time.Duration // with Once: give up when failures and the waits after them have taken so long; 0: 10 min
	Drain               time.Duration // time to finish the present batch when the context ends; 0: 2 s
	KeepRefused         int64         // bytes of parked files; the oldest ones are deleted, also above 1,000 profiles; 0: 1 GB

	Metrics  *Metrics                 // nil: counted for nobody
	Progress func(done, total uint64) // is told the number of files now and then; may be nil
	Log      *slog.Logger             // nil: none
}

// A Pusher sends a directory.
type Pusher struct {
	o       Options
	dir     *folder
	state   *folder // for the cursor and what is refused; may be dir
	parking parking
	cursor  *cursor
	metrics *Metrics
	log     *slog.Logger
	before  []ID                   // files of a batch that the process before this one may have sent
	late    ID                     // a large file at which the process before this one ended, perhaps for lack of memory
	many    uint32                 // number of goroutines from which on a file is large
	tries   map[string]int         // by name: how often a batch with the file failed
	parts   map[ID]map[string]bool // by batch: the parts that the target has
	failed  int                    // batches, one after the other
	lost    time.Duration          // how long failures and waits took
	told    time.Time              // when the latest failure was logged
	pruned  int                    // parked files that were deleted since that was logged
	unsaved bool                   // the cursor could not be saved
	strange map[string]time.Time   // by what was said once about the directory
}

// New returns a Pusher. It is an error if the directory cannot be read or written, or another
// process sends it to the same target.
func New(o Options) (*Pusher, error) {
	set := func(d *time.Duration, usual time.Duration) {
		if *d == 0 {
			*d = usual
		}
	}
	set(&o.Interval, 10*time.Second)
	set(&o.Backoff, time.Second)
	set(&o.MaxBackoff, time.Minute)
	set(&o.Drain, 2*time.Second)
	set(&o.GiveUp, 10*time.Minute)
	if o.Tries == 0 {
		o.Tries = 8
	}
	if o.KeepRefused == 0 {
		o.KeepRefused = 1e9
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pusher{
		o: o, many: manyGoroutines, metrics: o.Metrics, log: o.Log, parts: map[ID]map[string]bool{}, strange: map[string]time.Time{},
	}
	return p, p.open()
}

// ErrShared is in the error of New if there is no State and others may write to the directory.
var ErrShared = errors.New("others could change what push remembers there")

// open opens the folders and the cursor.
func (p *Pusher) open() (err error) {
	opened := Pusher{}
	defer func() {
		if err != nil {
			_ = opened.close()
		}
	}()
	if opened.dir, err = openFolder(p.o.Dir); err != nil {
		return err
	}
	opened.state = opened.dir
	key := cmp.Or(p.o.Key, p.o.Name)
	if p.o.State != "" {
		path, err := filepath.Abs(p.o.Dir)
		if err != nil {
			return err
		}
		key += "\n" + path
		if err := os.MkdirAll(p.o.State, 0o700); err != nil {
			return err
		}
		if opened.state, err = openFolder(p.o.State); err != nil {
			return err
		}
	}
	if err := onlyOurs(opened.state.info); err != nil {
		return fmt.Errorf("%s: %w: %w", opened.state.path, err, ErrShared)
	}
	if _, _, err := opened.dir.list(opened.state); err != nil {
		return err
	}
	if opened.cursor, err = openCursor(opened.state, key, p.o.Name); err != nil {
		return fmt.Errorf("the cursor: %w", err)
	}
	p.dir, p.state, p.cursor = opened.dir, opened.state, opened.cursor
	p.parking = parking{dir: p.dir, state: p.state, limit: p.o.KeepRefused}
	if p.before = p.cursor.batch; len(p.before) == 1 {
		p.before, p.late = nil, p.before[0]
	}
	return nil
}

// close closes what open has opened.
func (p *Pusher) close() (err error) {
	if p.cursor != nil {
		err = p.cursor.close()
	}
	p.parking.close()
	for _, d := range []*folder{p.dir, p.state} {
		if d != nil {
			d.Close()
		}
	}
	return err
}

// again opens the folders again if others have their names by now, such as when a volume was
// mounted.
func (p *Pusher) again() error {
	err := cmp.Or(p.dir.inPlace(), p.state.inPlace())
	if !errors.Is(err, errReplaced) {
		return err
	}
	old := Pusher{dir: p.dir, state: p.state, cursor: p.cursor, parking: p.parking}
	if err := p.open(); err != nil {
		return err
	}
	p.log.Warn("another directory has the name now; going on with that")
	_ = old.close() // its cursor was saved as far as possible
	return nil
}

// manyGoroutines is the number of goroutines from which on the memory for a file may be more than
// there is: some 200 bytes for each.
const manyGoroutines = 100_000

// Run sends files until the context ends, or with Options.Once until there is no more. It finishes
// the present batch then. The error is nil when it has done what it should.
func (p *Pusher) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, p.close()) }()
	if !p.o.Once { // so that many hosts do not send all at the same time
		p.sleep(ctx, rand.N(p.o.Interval))
	}
	for ctx.Err() == nil {
		begin := time.Now()
		failed := false
		entries, err := p.ready()
		if err == nil {
			failed, err = p.sendAll(ctx, entries)
		}
		switch {
		case err != nil && (p.o.Once || errors.As(err, &errGivenUp{})):
			return err
		case err != nil: // such as a volume that is not there now
			p.once("the directory cannot be read", "error", err.Error())
		case failed: // it has waited already
			continue
		case p.o.Once:
			return nil
		}
		p.sleep(ctx, p.o.Interval+rand.N(p.o.Interval/2)-time.Since(begin))
	}
	if p.o.Once {
		return fmt.Errorf("stopped before all files were sent: %w", context.Cause(ctx))
	}
	return nil
}

// errGivenUp is the error of a Pusher that sends once and gives up.
type errGivenUp struct {
	tries int
	err   error
}

// Error returns the latest failure.
func (e errGivenUp) Error() string { return fmt.Sprintf("given up after %d tries: %v", e.tries, e.err) }

// Unwrap returns the latest failure.
func (e errGivenUp) Unwrap() error { return e.err }

// sleep waits until d has passed or the context ends.
func (p *Pusher) sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// ready lists the files that are to be sent now: those that failed the fewest times first, and of
// these the oldest ones.
func (p *Pusher) ready() (ready []entry, err error) {
	if err := p.again(); err != nil {
		return nil, err
	}
	entries, errs, err := p.dir.list(p.state)
	if err != nil {
		return nil, err
	}
	for _, err := range errs {
		p.once("a part of the directory cannot be read", "error", err.Error())
	}
	p.cursor.keep(entries)
	now := time.Now()
	live := 0
	tries := map[string]int{}
	for _, e := range entries {
		switch {
		case p.cursor.done(e):
		case p.dir.finished(e, now):
			ready = append(ready, e)
			if n := p.tries[e.name]; n > 0 {
				tries[e.name] = n
			}
		default:
			live++
		}
	}
	p.tries = tries
	slices.SortStableFunc(ready, func(a, b entry) int { return tries[a.name] - tries[b.name] })
	p.metrics.queue(ready, live)
	return ready, nil
}

// once logs what does not change, at most each hour.
func (p *Pusher) once(text string, args ...any) {
	key := fmt.Sprint(append([]any{text}, args...)...)
	if now := time.Now(); now.Sub(p.strange[key]) > time.Hour {
		const most = 1000
		if len(p.strange) >= most {
			maps.DeleteFunc(p.strange, func(_ string, at time.Time) bool { return now.Sub(at) > time.Hour })
		}
		if len(p.strange) >= most { // somebody makes very many files
			return
		}
		if p.strange[key] = now; len(p.strange) == most {
			text += "; more like that are not logged for an hour"
		}
		p.log.Warn(text, args...)
	}
}
