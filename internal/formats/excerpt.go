package formats

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/frames"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// maxExcerpt is the most bytes of files that Excerpt reads. Files have no index, so each is read
// from its start. 64 MB are some ten million samples, which take a second or two.
const maxExcerpt = 64 << 20

// ErrNoPast is the error of [Excerpt] if the files do not have that time, or have too much.
var ErrNoPast = errors.New("not available")

// Excerpt writes the samples after the time from to a new Tachyon file at path. files are those of
// one session, the oldest first. The last one may be unfinished, and its writer running. The
// excerpt has the creators, labels and objects of its goroutines. Statistics of the session are
// left out.
//
// The error wraps [ErrNoPast] if the files begin later, or if those that are needed have more than
// 64 MB.
func Excerpt(ctx context.Context, path string, files []string, from time.Time) error {
	e := newExcerpt(ctx, from)
	defer e.close()
	if err := e.open(files); err != nil {
		return err
	}
	return e.all(path)
}

// Window is like Excerpt, for the time up to to of one file of any size.
func Window(ctx context.Context, path, file string, from, to time.Time) error {
	r, err := reader.Open(file)
	if err != nil {
		return err
	}
	e := newExcerpt(ctx, from)
	e.to, e.list = uint64(to.UnixMicro()), []*reader.Reader{r}
	defer e.close()
	return e.all(path)
}

func newExcerpt(ctx context.Context, from time.Time) *excerpt {
	return &excerpt{
		ctx: ctx, from: uint64(from.UnixMicro()), to: math.MaxUint64, threads: map[threadKey]*excerptThread{},
		goroutines: map[uint64]*tachyon.Goroutine{}, objects: map[int32]tachyon.Object{},
	}
}

func (e *excerpt) close() {
	for _, r := range e.list {
		r.Close()
	}
}

// all writes the excerpt.
func (e *excerpt) all(path string) (err error) {
	e.interval = e.list[0].Header().Interval
	e.w, err = writer.Create(path, writer.Options{Start: e.from, Interval: e.interval, NoJournal: true})
	if err != nil {
		return err
	}
	for _, r := range e.list {
		if err := e.add(r); err != nil {
			return errors.Join(err, e.w.Discard())
		}
	}
	return errors.Join(e.finish(), e.w.Close())
}

// An excerpt is being written.
type excerpt struct {
	ctx      context.Context
	list     []*reader.Reader // the oldest first
	w        *writer.Writer
	from, to uint64 // µs
	interval uint64 // µs

	threads    map[threadKey]*excerptThread
	goroutines map[uint64]*tachyon.Goroutine // those in the excerpt
	objects    map[int32]tachyon.Object
	stops      []tachyon.Stops
	session    *tachyon.Session // of the latest file
	samples    int64
	last       uint64 // time of the latest sample
}

type threadKey struct {
	id          uint64
	interpreter uint32
}

type excerptThread struct {
	seen  uint64          // time of its latest sample, also before the excerpt
	first uint64          // time of its first sample in the excerpt; 0: none
	whole bool            // it has a sample before that
	late  *tachyon.Sample // its first sample, if that is after the excerpt
}

// open opens the files that are needed, from the last one back.
func (e *excerpt) open(files []string) error {
	size, begin := int64(0), uint64(0)
	for _, path := range slices.Backward(files) {
		r, err := reader.Open(path)
		if errors.Is(err, fs.ErrNotExist) && len(e.list) > 0 {
			break // a rotation has deleted it
		}
		if err != nil {
			return err
		}
		e.list = append([]*reader.Reader{r}, e.list...)
		if size += r.Size(); size > maxExcerpt {
			return fmt.Errorf("%w: the session's files with that time have more than %d MB; rotation makes them shorter, for example PROFILE_ROTATE=1m", ErrNoPast, maxExcerpt>>20)
		}
		if begin = r.Header().Start; begin <= e.from {
			return nil
		}
	}
	if len(e.list) == 0 {
		return fmt.Errorf("%w: the session has no file", ErrNoPast)
	}
	return fmt.Errorf("%w: the session's files begin %v ago", ErrNoPast, time.Since(time.UnixMicro(int64(begin))).Round(time.Millisecond))
}

// add adds the samples and the facts of one file.
func (e *excerpt) add(r *reader.Reader) error {
	remap := frames.Remap{From: r.Frames(), To: e.w}
	n, pause := 0, Pace()
	for s, err := range r.Samples() {
		if err != nil {
			return err
		}
		if n++; n%256 == 0 {
			if e.ctx.Err() != nil {
				return context.Cause(e.ctx)
			}
			pause()
		}
		if err := e.sample(s, &remap); err != nil {
			return err
		}
	}
	m, err := r.Overview()
	if err != nil {
		return err
	}
	e.session = m.Session
	for o, err := range r.Objects() {
		if err != nil {
			return err
		}
		e.objects[o.Number] = *o
	}
	if err := e.addStops(r); err != nil {
		return err
	}
	start, fresh := r.Header().Start, map[uint64]bool{}
	for g, err := range r.Goroutines() {
		if err != nil {
			return err
		}
		if err := e.goroutine(g, start, fresh); err != nil {
			return err
		}
	}
	return nil
}

// addStops adds how often goroutines stopped, of times that are wholly in the excerpt. One without
// goroutines says where the first of these begins, and that of the time before nothing is known.
func (e *excerpt) addStops(r *reader.Reader) error {
	from := r.Header().Start
	for s, err := range r.Stops() {
		if err != nil {
			return err
		}
		until := r.Header().Start + s.Until
		if from >= e.from && until <= e.to {
			if n := len(e.stops); from > e.from && (n == 0 || e.stops[n-1].Until < from-e.from) {
				e.stops = append(e.stops, tachyon.Stops{Until: from - e.from})
			}
			e.stops = append(e.stops, tachyon.Stops{Until: until - e.from, List: slices.Clone(s.List)})
		}
		from = until
	}
	return nil
}

func (e *excerpt) sample(s *tachyon.Sample, remap *frames.Remap) error {
	k := threadKey{s.Thread, s.Interpreter}
	t := e.threads[k]
	before := t != nil
	if t == nil {
		t = &excerptThread{}
		e.threads[k] = t
	}
	seen := t.seen
	t.seen = min(s.Time, e.to)
	if s.Time <= e.from || seen >= e.to {
		return nil
	}
	stack, err := remap.Stack(s.Stack)
	if err != nil {
		return err
	}
	c := *s
	if !before && s.Time > e.to {
		c.Stack = slices.Clone(stack)
		t.late = &c
		return nil
	}
	c.Stack, c.Time = stack, t.seen // of the time that the sample stands for, what is before the end
	if t.first == 0 {
		t.first, t.whole = c.Time, before
		// Readers give a thread's first sample one interval. If it stands for more, there is one
		// more sample at the beginning of that time, as in a session's own file.
		if gap := c.Time - max(seen, e.from); before && gap >= e.interval*3/2 {
			c.Time -= gap - e.interval
			if err := e.write(&c); err != nil {
				return err
			}
			t.first, c.Time = c.Time, t.seen
		}
	}
	e.last = max(e.last, c.Time)
	return e.write(&c)
}

func (e *excerpt) write(s *tachyon.Sample) error {
	e.samples++
	return e.w.Write(s)
}

// goroutine adds a part of what a file knows about a goroutine. start is the file's start. fresh
// has the goroutines of which there were parts in this file.
func (e *excerpt) goroutine(g *tachyon.Goroutine, start uint64, fresh map[uint64]bool) error {
	t := e.threads[threadKey{g.ID, tachyon.User}]
	if t == nil {
		t = e.threads[threadKey{g.ID, tachyon.Runtime}]
	}
	if t == nil {
		return nil
	}
	var weight uint64
	if t.late != nil && g.FirstWeight > 0 {
		// The sample stands for a time that began within the excerpt, or before it.
		if begin := max(t.late.Time-min(g.FirstWeight, t.late.Time), e.from); begin < e.to {
			t.late.Time, t.first, weight = e.to, e.to, e.to-begin
			if err := e.write(t.late); err != nil {
				return err
			}
			e.last = e.to
		}
		t.late = nil
	}
	if t.first == 0 {
		return nil
	}
	mine := e.goroutines[g.ID]
	if mine == nil {
		mine = &tachyon.Goroutine{ID: g.ID, Parent: g.Parent, CreatedBy: g.CreatedBy, CreatedAt: g.CreatedAt}
		mine.First, mine.Last = t.first-e.from, t.seen-e.from
		if mine.FirstWeight = weight; weight == 0 && !t.whole {
			mine.FirstWeight = min(g.FirstWeight, mine.First)
		}
		e.goroutines[g.ID] = mine
	}
	mine.Last = max(mine.Last, t.seen-e.from)
	if !fresh[g.ID] {
		// A file begins without labels.
		fresh[g.ID] = true
		e.label(mine, start, nil)
	}
	for _, l := range g.Labels {
		e.label(mine, start+l.From, l.Labels)
	}
	return nil
}

// label begins a span of labels at a time.
func (e *excerpt) label(g *tachyon.Goroutine, at uint64, labels map[string]string) {
	if at > e.to {
		return
	}
	span := tachyon.LabelSpan{From: max(at, e.from) - e.from, Labels: labels}
	if labels == nil {
		span.Labels = map[string]string{}
	}
	if n := len(g.Labels); n > 0 && g.Labels[n-1].From == span.From {
		g.Labels = g.Labels[:n-1] // that span has no time
	}
	present := map[string]string{}
	if n := len(g.Labels); n > 0 {
		present = g.Labels[n-1].Labels
	}
	if !maps.Equal(present, span.Labels) {
		g.Labels = append(g.Labels, span)
	}
}

// finish writes what is known.
func (e *excerpt) finish() error {
	var r tachyon.Records
	for _, id := range slices.Sorted(maps.Keys(e.goroutines)) {
		r.Goroutines = append(r.Goroutines, *e.goroutines[id])
	}
	for _, number := range slices.Sorted(maps.Keys(e.objects)) {
		r.Objects = append(r.Objects, e.objects[number])
	}
	err := e.w.WriteRecords(&r)
	for i := range e.stops {
		err = errors.Join(err, e.w.WriteRecords(&tachyon.Records{Stops: &e.stops[i]}))
	}
	if e.session == nil {
		return err
	}
	s := *e.session
	s.Start = time.UnixMicro(int64(e.from)).UTC()
	s.Duration = reader.Micros(max(e.last, e.from) - e.from)
	if e.to != math.MaxUint64 {
		s.Duration = reader.Micros(e.to - e.from)
	}
	s.Part, s.SessionStart, s.Error = 0, time.Time{}, ""
	s.Counts = tachyon.Counts{Samples: e.samples}
	return errors.Join(err, e.w.AddMetadata(tachyon.KindSession, &s))
}

// Pace returns a function for work inside a service, which calls it after each small piece. It
// sleeps for half of the time. Otherwise a conversion computes for a whole time slice, 10 ms, again
// and again: with few cores the service's requests wait for its end, as they do beside any handler
// that computes. A measurement in httpprof has the figures.
func Pace() func() {
	const least, most = 200 * time.Microsecond, 10 * time.Millisecond
	begin := time.Now()
	return func() {
		if worked := time.Since(begin); worked >= least {
			time.Sleep(min(worked, most))
			begin = time.Now()
		}
	}
}
