package profiler

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gotach/profiler/internal/hook"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/rotate"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// The time in these functions is their caller's.
var _ = own.Hide(Start, Open, (*Session).Stop, (*Session).Err, (*Session).Stats, (*Session).Path, (*Session).Files)

// ErrActive is the error of a session that begins while another one is running.
var ErrActive = errors.New("another session is running in this program")

// active is the session that is running now, or nil.
var active atomic.Pointer[Session]

// A Session is one profile being taken. Its methods may be called from any goroutine.
// On a nil Session they do nothing and return zero values.
type Session struct {
	config config
	path   string
	start  time.Time

	exe     executable
	sampler *sampler.Sampler
	sink    *sink                           // nil: nothing
	nothing *rotate.Nothing                 // of a session without a file
	running atomic.Pointer[sampler.Sampler] // sampler, once it has started; for other goroutines

	stop  sync.Once
	leaks *tachyon.ProvenLeaks // of Stop, or nil
	mu    sync.Mutex
	err   error // the session's first error
}

// Start begins a session. It never returns nil and never makes the program fail. If
// sampling cannot begin, Start logs one warning with the reason, and [Session.Err] of the
// returned session returns the error. The usual use is one line in main:
//
//	defer profiler.Start().Stop()
func Start(opts ...Option) *Session {
	s, err := Open(opts...)
	if err == nil {
		return s
	}
	idle := &Session{err: err}
	idle.stop.Do(func() {}) // Stop has nothing to do
	warn(loggerOf(opts), "gotach: no profile is being taken", err)
	return idle
}

// Open begins a session like [Start], but returns the error instead of logging it. The
// causes are an invalid option, a file that cannot be made, a source that does not work on
// this system, and a session that is already running ([ErrActive]). After an error Open leaves
// no new file behind. A finished profile that was at the path before may have been emptied; a file
// that is no profile is not touched.
func Open(opts ...Option) (*Session, error) {
	c, err := newConfig(opts, os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("gotach: %w", err)
	}
	return open(c)
}

// open begins a session with the configuration c.
func open(c config) (*Session, error) {
	if err := sampler.Allowed(); err != nil { // checked before a file is made or emptied
		return nil, fmt.Errorf("gotach: %w", err)
	}
	s := &Session{config: c, start: time.Now()}
	s.path = c.oneFile
	if s.path == "" {
		s.path = expand(c.output, s.start)
	}
	if !active.CompareAndSwap(nil, s) {
		if other := active.Load(); other != nil && other.Path() != "" {
			return nil, fmt.Errorf("gotach: %w; it writes %s", ErrActive, other.Path())
		}
		return nil, fmt.Errorf("gotach: %w", ErrActive)
	}
	if err := s.begin(); err != nil {
		active.CompareAndSwap(s, nil)
		return nil, fmt.Errorf("gotach: %w", err)
	}
	return s, nil
}

// begin opens the file and starts sampling into it.
func (s *Session) begin() error {
	o := writer.Options{
		Start:        uint64(s.start.UnixMicro()),
		Interval:     uint64(time.Second.Microseconds()) / uint64(s.config.rate),
		Uncompressed: s.config.compression == Uncompressed,
		Sync:         s.config.sync,
	}
	defer own.Turn()()
	s.exe = readExecutable()
	var to sampler.Sink
	var err error
	if s.config.noFile {
		s.nothing = &rotate.Nothing{}
		to = &unkept{Nothing: s.nothing}
	} else if to, err = s.createFile(o); err != nil {
		return err
	}
	own.Again()
	if hook.Sink != nil {
		to = hook.Sink(to).(sampler.Sink)
	}
	s.sampler, err = sampler.Start(sampler.Config{
		Rate:         s.config.rate,
		Budget:       s.config.budget,
		Source:       string(s.config.source),
		System:       s.config.system,
		NoWaitFrames: s.config.noWaitFrames,
		MaxPause:     s.config.maxPause,
		Start:        s.start,
		OnError:      s.broken,
		OnWarning:    func(err error) { s.config.log().Warn("gotach: part of the profile is missing", "why", err) },
	}, to)
	if err != nil {
		if s.sink != nil {
			err = errors.Join(err, s.sink.discard(err))
		}
		return err
	}
	s.running.Store(s.sampler)
	if st := s.sampler.Stats(); st.Reason != "" && s.config.source == Auto {
		s.config.log().Warn("gotach: sampling with the portable source, which stops the world for each tick", "why", st.Reason)
	}
	return nil
}

// createFile begins the profile's file.
func (s *Session) createFile(o writer.Options) (sampler.Sink, error) {
	s.config.exports = s.targets()
	out, err := s.create(o)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.sink = out
	s.mu.Unlock()
	if err := out.Warning(); err != nil {
		s.config.log().Warn("gotach: the profile cannot be recovered if the program is killed", "why", err)
	}
	if path := out.Kept(); path != "" {
		s.config.log().Info("gotach: an earlier profile was not finished, because its program was killed; it is kept", "file", path)
	}
	return out, nil
}

// broken is called when sampling ends before Stop. After a deadlock no goroutine of the
// program can call Stop, so broken calls it; then the program ends.
func (s *Session) broken(err error) {
	s.fail(err)
	if errors.Is(err, sampler.ErrDeadlock) {
		s.Stop()
	}
}

// Stop ends the session. It takes a final sample of every goroutine, finishes the file and
// writes the exports. Nothing of the session runs after that. With a hundred thousand
// goroutines Stop takes up to half a second. It returns the session's first error. Further
// calls wait for the first call and return the same error.
func (s *Session) Stop() error {
	if s == nil {
		return nil
	}
	s.stop.Do(func() {
		defer own.Turn()()
		s.fail(s.finish())
		active.CompareAndSwap(s, nil)
		s.export()
	})
	return s.Err()
}

// targets returns the exports with their whole paths, without those that would replace a profile of the session, a journal
// or another export. It warns of these.
func (s *Session) targets() (list []hook.Target) {
	for _, t := range s.config.exports {
		t.Path = expand(t.Path, s.start)
		same := func(o hook.Target) bool { return rotate.Same(o.Path, t.Path) }
		if rotate.Belongs(s.path, t.Path) || slices.ContainsFunc(list, same) {
			s.config.log().Warn("gotach: an export is left out, because it would replace another file of the session", "format", t.Format, "file", t.Path)
			continue
		}
		list = append(list, t)
	}
	return list
}

// export writes the profile in other formats. Each export covers all files that are kept.
func (s *Session) export() {
	if len(s.config.exports) == 0 {
		return
	}
	if hook.Exporting == nil { // Stop was called in an init function before package export's
		s.fail(errors.New("export: package export is not initialized yet"))
		return
	}
	hook.Exporting.Export(s.Files(), s.config.exports, s.fail)
}

// finish ends sampling, writes the metadata and closes the file.
func (s *Session) finish() error {
	errSampler := s.sampler.Stop()
	if n := s.sampler.Stats().SignalTaken; n > 0 {
		s.config.log().Warn("gotach: the program ignored the sampler's signal for a while, and some samples are missing", "times", n)
	}
	if s.sink == nil {
		return errSampler
	}
	if s.config.leaks {
		s.leaks = &tachyon.ProvenLeaks{Unavailable: "the program does not import github.com/gotach/profiler/leaks"}
		if hook.ProvenLeaks != nil {
			s.leaks, _ = hook.ProvenLeaks().(*tachyon.ProvenLeaks)
		}
	}
	part := s.sampler.Part()
	return errors.Join(errSampler, s.sink.end(&part))
}

// Err returns the session's first error so far, or nil.
func (s *Session) Err() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Stats says how a session goes, or how it went. What sampling alone can make use of is in the file: "gotach info" shows it.
type Stats struct {
	Source   string        // native or portable
	Reason   string        // why Auto could not take the native source; "" if it did
	Duration time.Duration // of sampling

	Samples   int64         // samples written
	Dropped   int64         // samples lost, for example because nothing could be written
	Unwritten time.Duration // the time for which nothing could be written: the disk was full or failed

	TicksAsked     int64 // Rate times Duration
	TicksReached   int64 // ticks taken. What the next three do not count came too late: the machine was busy
	TicksForBudget int64 // ticks left out so that the cost stays within the Budget
	TicksIdle      int64 // ticks left out because nothing ran
	TicksRefused   int64 // ticks left out because they would have stopped the program for longer than MaxPause

	Cost      time.Duration // CPU time that sampling took on all cores
	Throttled time.Duration // the time for which the CPU quota of the process's cgroup was used up

	// SignalTaken counts how often the program, or C code in it, set the native source's signal (SIGURG) to be ignored or
	// to its default. Some samples are missing each time.
	SignalTaken int64
}

// Stats returns the statistics so far, or of the whole session after Stop. It returns the zero value if sampling did not
// start.
func (s *Session) Stats() Stats {
	if s == nil || s.sampler == nil {
		return Stats{}
	}
	st := s.sampler.Stats()
	return Stats{
		Source: st.Source, Reason: st.Reason, Duration: st.Duration,
		Samples: st.Samples, Dropped: st.Dropped, Unwritten: st.Unwritten,
		TicksAsked: st.TicksAsked, TicksReached: st.TicksReached, TicksForBudget: st.TicksForBudget, TicksIdle: st.TicksIdle, TicksRefused: st.TicksRefused,
		Cost: st.Cost, Throttled: st.Throttled, SignalTaken: st.SignalTaken,
	}
}

// Path returns the path of the file that the session writes, or "" if there is none. With
// rotation it is the latest file.
func (s *Session) Path() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	out := s.sink
	s.mu.Unlock()
	if out == nil {
		return s.path
	}
	return out.Path()
}

// Files returns the paths of the finished files, the oldest first. With rotation these are
// the files that are kept. Without rotation there is no finished file before Stop.
func (s *Session) Files() []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	out := s.sink
	s.mu.Unlock()
	if out == nil {
		return nil
	}
	return out.Files()
}

// fail stores and logs the session's first error. The sink calls it too, when a file can
// no longer be written.
func (s *Session) fail(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	first := s.err == nil
	if first {
		s.err = fmt.Errorf("gotach: %w", err)
	}
	s.mu.Unlock()
	if first {
		warn(s.config.log(), "gotach: the profile is not complete", err, "file", s.Path())
	}
}

// loggerOf returns the logger that the options set. Other options may be invalid.
func loggerOf(opts []Option) *slog.Logger {
	var c config
	for _, o := range opts {
		if o != nil {
			_ = o(&c) // newConfig has reported the error
		}
	}
	return c.log()
}

func warn(l *slog.Logger, msg string, err error, args ...any) {
	l.Warn(msg, append([]any{"err", err}, args...)...)
}

// A metadataString is one object of the file's metadata.
type metadataString struct {
	kind  string
	value any
}

// metadata returns the metadata of a file, which holds the nth part of the session. Part 0
// is the whole session. unnamed says why objects have no names.
func (s *Session) metadata(n int, p *sampler.Part, unnamed string) []metadataString {
	d := s.describe(n, p.Start, &p.Stats)
	d.ObjectsUnnamed = unnamed
	out := []metadataString{{tachyon.KindSession, d}}
	if pcs := p.PCs; pcs != nil {
		pcs.TextStart, pcs.TextSize = s.exe.textStart, s.exe.textSize
		out = append(out, metadataString{tachyon.KindPCs, pcs})
	}
	return out
}
