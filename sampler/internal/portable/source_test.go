package portable

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/sampler/internal/source/sourcetest"
	"github.com/gotach/profiler/tachyon"
)

// TestSession runs a session in a bubble, in which a look takes no time. The ticks come at the rate, and nothing
// changes after Stop.
func TestSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const length = 100 * time.Millisecond
		r, s := newRecorder(), New()
		testenv.OK(t, s.Start(source.Config{Rate: 1000, Budget: 100, MaxPause: 10 * time.Millisecond, WaitFrames: true, Start: time.Now()}, r))
		time.Sleep(length)
		s.Stop()
		st, n := s.Stats(), len(r.samples)
		testenv.FailIf(t, st.TicksAsked != 101 || st.TicksReached < 94 || st.TicksReached > 108 || st.Cost != time.Duration(st.TicksReached)*restart ||
			st.Dropped != 0 || st.TicksRefused != 0 || int64(n) < 2*st.TicksReached, "%+v after %d samples", st, n)
		last := make(map[uint64]time.Duration)
		for _, p := range r.samples {
			before, ok := last[p.Goroutine]
			testenv.StopIf(t, ok && (p.Time <= before || p.Gap != p.Time-before), "goroutine %d at %v after %v, gap %v", p.Goroutine, p.Time, before, p.Gap)
			last[p.Goroutine] = p.Time
		}
		testenv.Same(t, "the last look", last[self()], length)
		time.Sleep(time.Second)
		testenv.Same(t, "Stats after Stop", s.Stats(), st)
		testenv.Same(t, "samples after Stop", len(r.samples), n)
	})
}

// TestWholeSession runs a session whose budget allows only one look. The samples must cover the
// session from its start to its end.
func TestWholeSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := newRecorder(), New()
		testenv.OK(t, s.Start(source.Config{Rate: 1000, Budget: 0.001, MaxPause: 10 * time.Millisecond, Start: time.Now()}, r))
		time.Sleep(time.Second)
		s.Stop()
		var times []time.Duration // times of looks
		for _, sample := range r.samples {
			times = append(times, sample.Time)
		}
		testenv.SameList(t, "looks", slices.Compact(times), []time.Duration{0, time.Second})
	})
}

// TestBrokenSink has an Out that panics. The session must end with an error.
func TestBrokenSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := newRecorder(), New()
		r.onSample = func() { panic("the sink is broken") }
		testenv.OK(t, s.Start(source.Config{Rate: 1000, Budget: 100, MaxPause: 10 * time.Millisecond, Start: time.Now()}, r))
		synctest.Wait()
		testenv.Fails(t, "a sink that panics", r.Err, "the sink is broken")
		s.Stop()
	})
}

// TestBuffer starts with a buffer that is too small. Goroutines that do not fit are counted as
// dropped, and the buffer grows for the next tick. It shrinks when it is not needed any more.
func TestBuffer(t *testing.T) {
	const n = 500
	waitFor(t, func() bool { return runtime.NumGoroutine() == 2 }) // the goroutines of other tests have ended
	end := park(n, 0)
	r := newRecorder()
	s := New()
	s.cfg, s.out = source.Config{Start: time.Now()}, r
	s.limit = newLimit(time.Minute)
	s.snapshot.init(r, true)
	s.buf = make([]byte, 10_000)
	alive := runtime.NumGoroutine()
	s.tick(1, false)
	testenv.Within(t, "samples", len(r.samples), 10, alive-2)
	testenv.Same(t, "dropped", int(s.dropped.Load()), alive-1-len(r.samples))
	testenv.Same(t, "buffer", len(s.buf), alive*perGoroutine)
	r.samples = nil
	s.dropped.Store(0)
	s.tick(1, false)
	testenv.Prints(t, "samples, dropped and gone", fmt.Sprint(alive-1, " 0 0"), len(r.samples), s.dropped.Load(), len(r.Ended))
	end()
	waitFor(t, func() bool { return runtime.NumGoroutine() == alive-n })
	for range shrinkAfter {
		s.resize(1000)
	}
	testenv.Same(t, "buffer", len(s.buf), alive*perGoroutine/4)
	s.buf = make([]byte, maxBuffer/2+1)
	s.resize(len(s.buf))
	s.resize(len(s.buf))
	testenv.Same(t, "buffer", len(s.buf), maxBuffer)
}

func TestMain(m *testing.M) { testenv.MainWithoutLeaks(m) }

// self returns the calling goroutine's id.
func self() (id uint64) {
	var buf [64]byte
	fmt.Sscanf(string(buf[:runtime.Stack(buf[:], false)]), "goroutine %d ", &id)
	return id
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	held := false
	testenv.Await(func() bool { held = ok(); return held })
	testenv.StopIf(t, !held, "the condition is still false after a minute")
}

// TestAgreement has a goroutine that waits. It compares its sample with its own description of itself.
func TestAgreement(t *testing.T) {
	r, s := newSnapshot(true)
	buf := make([]byte, 4<<20)
	look := func() {
		r.samples = nil
		testenv.Same(t, "lost", s.read(buf[:runtime.Stack(buf, true)], true), lost{})
		s.emit(time.Second, 1, func(int) int { return 0 })
	}
	var done sync.WaitGroup
	var m sync.Mutex
	m.Lock()
	chain, told := []runtime.Frame(nil), make(chan uint64) // the chain is that of the witness, innermost first
	done.Go(func() {
		var pcs [32]uintptr
		frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
		for f, more := frames.Next(); more; f, more = frames.Next() {
			chain = append(chain, f) // without runtime.goexit, the last one
		}
		told <- self()
		m.Lock()
	})
	id := <-told
	var sample *source.Sample
	var st []tachyon.Frame
	waitFor(t, func() bool {
		look()
		sample = &r.samples[slices.IndexFunc(r.samples, func(s source.Sample) bool { return s.Goroutine == id })]
		st = r.Stack(sample)
		return st[0] == (tachyon.Frame{Func: "[sync.Mutex.Lock]"})
	})
	testenv.Prints(t, "status and function", "0 internal/sync.runtime_SemacquireMutex", sample.Status, st[1].Func)
	g := r.Told[id]
	testenv.FailIf(t, g.Parent != self() || !strings.HasSuffix(g.CreatedBy, ".(*WaitGroup).Go") || !strings.Contains(g.CreatedAt, "/waitgroup.go:"), "created by %+v", g)
	// The callers of the witness are as runtime.Callers returned them. It has itself gone on to another line.
	own := len(st) - len(chain)
	testenv.StopIf(t, own < 2 || st[own].Func != chain[0].Function || st[own].File != chain[0].File, "%v does not end in %v", st, chain)
	for j, f := range chain[1:] {
		testenv.Same(t, own+1+j, st[own+1+j], tachyon.Frame{Func: f.Function, File: f.File, Line: int32(f.Line)})
	}
	m.Unlock()
	done.Wait()
	waitFor(t, func() bool { look(); return slices.Contains(r.Ended, id) }) // Out hears of its end
}

// recorder is an Out that keeps everything.
type recorder struct {
	sourcetest.Out
	samples  []source.Sample
	process  []source.Sample // of pseudo threads
	onSample func()
}

func newRecorder() *recorder { return &recorder{Out: sourcetest.NewOut()} }

func (r *recorder) Goroutine(g source.Goroutine) bool {
	if _, ok := r.Told[g.ID]; ok {
		panic(fmt.Sprint("Goroutine was called twice for goroutine ", g.ID))
	}
	return r.Out.Goroutine(g)
}

func (r *recorder) Sample(s *source.Sample) {
	if s.Process {
		r.process = append(r.process, *s)
		return
	}
	if _, ok := r.Told[s.Goroutine]; !ok {
		panic(fmt.Sprint("Sample was called before Goroutine for goroutine ", s.Goroutine))
	}
	if s.Leaf != 0 {
		panic("the portable source knows no addresses")
	}
	if r.onSample != nil {
		r.onSample()
	}
	c := *s
	c.Stack = append([]uint32(nil), s.Stack...)
	r.samples = append(r.samples, c)
}
