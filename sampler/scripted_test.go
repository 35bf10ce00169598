package sampler

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"

	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

func TestMain(m *testing.M) { testenv.MainWithoutLeaks(m) }

var sessionStart = time.UnixMicro(1_700_000_000_000_000)

func ms(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }

// us returns the wall clock at a time of the session, as in samples.
func us(d time.Duration) uint64 { return uint64(sessionStart.Add(d).UnixMicro()) }

func request(v string) map[string]string { return map[string]string{"request": v} }

// A scripted source does nothing: the test makes its calls of Out.
type scripted struct {
	name          string
	refuse        error
	cfg           source.Config
	out           source.Out
	starts, stops int
	looked        chan struct{} // nil: looks are complete at once
}

func (f *scripted) Start(cfg source.Config, out source.Out) error {
	f.starts++
	f.cfg, f.out = cfg, out
	if f.refuse != nil {
		out.Goroutine(source.Goroutine{ID: 99})
		out.Batch(func() { out.Sample(&source.Sample{Goroutine: 99}) })
	}
	return f.refuse
}

func (f *scripted) Stop() { f.stops++ }

func (f *scripted) Look() <-chan struct{} {
	if f.looked != nil {
		return f.looked
	}
	c := make(chan struct{})
	close(c)
	return c
}

func (f *scripted) Progress() tachyon.Progress {
	return tachyon.Progress{Source: f.name, Objects: tachyon.OnlyChannels, FarEndsUnknown: "why", Counts: tachyon.Counts{TicksAsked: 5, TicksReached: 4, Dropped: 3, Torn: 2, Cost: time.Second}}
}

func (f *scripted) candidate() (source.Source, error) { return f, nil }

func noNative() (source.Source, error) { return nil, errors.New("there is none for plan9") }

// session begins a session with a scripted source.
func session(t testing.TB, cfg Config, sink Sink) (*Sampler, source.Out) {
	t.Helper()
	f := &scripted{name: Native}
	cfg.Start = sessionStart
	s := testenv.Must(start(cfg, sink, f.candidate, nil))
	t.Cleanup(func() { _ = s.Stop() })
	return s, f.out
}

func stop(t testing.TB, s *Sampler) {
	t.Helper()
	testenv.OK(t, s.Stop())
}

// sample passes on a goroutine and a sample of it.
func sample(out source.Out, s source.Sample) {
	out.Goroutine(source.Goroutine{ID: s.Goroutine, Parent: 1, CreatedBy: "main.main"})
	out.Sample(&s)
}

func equal(t interface {
	Helper()
	Errorf(string, ...any)
	Fatal(...any)
}, what string, got, want any) {
	t.Helper()
	testenv.NoDiff(t, what, cmp.Diff(want, got, cmp.EquateEmpty()))
}

var errFull = errors.New("no space left")

// memory is a sink that keeps everything.
type memory struct {
	frames   []tachyon.Frame
	samples  []tachyon.Sample
	batches  []int // samples in each batch
	objects  []tachyon.Object
	stops    []tachyon.Stops
	parts    []tachyon.Goroutine
	progress []tachyon.Progress
	forgot   []uint64
	before   []int  // samples at the time of each
	room     int    // after so many samples it fails; 0: never
	fails    int    // how often it has failed
	shut     bool   // it takes no samples
	full     bool   // the part of the session ends
	refuse   string // a method that fails
	ended    []ended
}

// An ended part of a session has what the sink got for it.
type ended struct {
	at      time.Duration
	part    Part
	samples []tachyon.Sample
	parts   []tachyon.Goroutine
}

func (m *memory) Intern(f tachyon.Frame) uint32 {
	id := slices.Index(m.frames, f)
	if id < 0 {
		id = len(m.frames)
		m.frames = append(m.frames, f)
	}
	return uint32(id)
}

func (m *memory) WriteBatch(list []tachyon.Sample) (int, error) {
	if m.shut {
		return 0, nil
	}
	m.batches = append(m.batches, len(list))
	for i, s := range list {
		if m.room > 0 && len(m.samples) == m.room {
			m.fails++
			return i, errFull
		}
		s.Stack = slices.Clone(s.Stack)
		m.samples = append(m.samples, s)
	}
	return len(list), nil
}

func (m *memory) WriteRecords(r *tachyon.Records) error {
	if s := r.Stops; s != nil {
		m.stops = append(m.stops, tachyon.Stops{Until: s.Until, List: slices.Clone(s.List)})
	}
	if len(r.Goroutines) == 0 && len(r.Objects) == 0 && r.Progress == nil && r.Stops == nil {
		panic("records of nothing")
	}
	m.objects = append(m.objects, r.Objects...)
	m.parts = append(m.parts, r.Goroutines...)
	if r.Progress != nil {
		m.progress = append(m.progress, *r.Progress)
	}
	return m.failing("WriteRecords")
}

func (m *memory) Forget(id uint64, _ uint32) error {
	m.forgot, m.before = append(m.forgot, id), append(m.before, len(m.samples))
	return m.failing("Forget")
}

func (m *memory) failing(method string) error {
	if m.refuse == method {
		return errFull
	}
	return nil
}

// lengths returns the session's length in each progress.
func (m *memory) lengths() (list []time.Duration) {
	for _, p := range m.progress {
		list = append(list, p.Duration)
	}
	return list
}

func (m *memory) Full() bool { return m.full }

func (m *memory) Next(at time.Duration, cut func() Part) { m.end(at, cut()) }

// end puts what the sink has got since the previous part with the part.
func (m *memory) end(at time.Duration, p Part) {
	m.ended = append(m.ended, ended{at, p, m.samples, m.parts})
	m.samples, m.parts = nil, nil
}

// goroutines returns all goroutines of a part, by ascending id, as readers do.
func (e ended) goroutines() (list []tachyon.Goroutine) {
	for _, g := range append(slices.Clone(e.parts), e.part.Goroutines...) {
		i, found := slices.BinarySearchFunc(list, g.ID, func(g tachyon.Goroutine, id uint64) int { return int(g.ID) - int(id) })
		if found {
			list[i].Add(&g)
		} else {
			list = slices.Insert(list, i, g)
		}
	}
	return list
}

// whole returns a session of one part that has ended.
func (m *memory) whole(s *Sampler) ended {
	return ended{part: s.Part(), samples: m.samples, parts: m.parts}
}

// has reports whether the sample's stack has a function whose name ends in suffix.
func (m *memory) has(s *tachyon.Sample, suffix string) bool {
	return slices.ContainsFunc(s.Stack, func(id uint32) bool { return strings.HasSuffix(m.frames[id].Func, suffix) })
}
