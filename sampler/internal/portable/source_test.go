package portable

import (
	"fmt"
	"math/rand/v2"
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
		st, n := s.Progress(), len(r.samples)
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
		testenv.Same(t, "Progress after Stop", s.Progress(), st)
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

// pacing runs a pacer with a simulated clock. A tick takes the time that took returns, and costs
// that on each of procs. pacing returns the waits and the whole cost.
func pacing(rate int, budget float64, procs int, length time.Duration, took func(tick int) time.Duration) (waits []time.Duration, cost time.Duration) {
	now := time.Duration(0)
	p := newPacer(rate, budget, now)
	p.random = rand.New(rand.NewPCG(1, 2)).Float64
	for now < length {
		d := took(len(waits))
		c := d * time.Duration(procs)
		cost += c
		now += d
		w := p.next(now, c, float64(procs))
		now += w
		waits = append(waits, w)
	}
	return waits, cost
}

// TestBudget checks that the cost of ticks is within the budget, and that the budget is used up if
// the rate would cost more.
func TestBudget(t *testing.T) {
	const length = 20 * time.Second
	tests := []struct {
		name   string
		rate   int
		budget float64
		procs  int
		took   func(int) time.Duration
		ticks  [2]int // least and most
	}{
		{"cheap", 1000, 1, 8, func(int) time.Duration { return 5 * time.Microsecond }, [2]int{19_900, 20_100}},
		{"ten goroutines", 1000, 1, 2, func(int) time.Duration { return 100 * time.Microsecond }, [2]int{1850, 2001}},
		{"ten thousand", 1000, 1, 2, func(int) time.Duration { return 114 * time.Millisecond }, [2]int{2, 2}},
		{"all of it", 1000, 100, 2, func(int) time.Duration { return 500 * time.Microsecond }, [2]int{19_900, 20_100}},
		{"cheap, then expensive", 100, 1, 4, func(i int) time.Duration {
			if i < 1000 {
				return 50 * time.Microsecond
			}
			return 10 * time.Millisecond
		}, [2]int{1010, 1016}},
	}
	for _, tt := range tests {
		waits, cost := pacing(tt.rate, tt.budget, tt.procs, length, tt.took)
		testenv.Within(t, tt.name+": ticks", len(waits), tt.ticks[0], tt.ticks[1])
		last := tt.took(len(waits)-1) * time.Duration(tt.procs)
		allowed := time.Duration(float64(length) * float64(tt.procs) * tt.budget / 100)
		testenv.Within(t, tt.name+": cost", cost, 0, allowed+last)
	}
}

// TestPhases samples a program with phases in which ticks have different costs. Each phase must
// get its share of the time.
func TestPhases(t *testing.T) {
	p := newPacer(1000, 1, 0)
	p.random = rand.New(rand.NewPCG(1, 2)).Float64
	const length = 100 * time.Second
	var seen [5]time.Duration // phases of 20 ms, of which the first two are dear
	last := time.Duration(0)
	for now := time.Duration(0); now < length; {
		in := now / (20 * time.Millisecond) % 5
		seen[in] += now - last
		last = now
		cost := 200 * time.Microsecond
		if in < 2 {
			cost *= 4
		}
		now += cost / 2
		now += p.next(now, cost, 2)
	}
	for i := range seen {
		testenv.Within(t, fmt.Sprint("share of phase ", i), seen[i].Seconds()/length.Seconds(), 0.19, 0.21)
	}
}

// TestCredit checks that a long time without cost does not allow an expensive time after it.
func TestCredit(t *testing.T) {
	const dear, share = 20 * time.Millisecond, 0.01 * 4
	p := newPacer(1000, 1, 0)
	now := time.Hour // without cost so far
	begin := now
	p.next(now, 0, 4)
	cost := time.Duration(0)
	for now < begin+20*time.Second {
		now += p.next(now, dear, 4)
		cost += dear
	}
	allowed := time.Duration(float64(now-begin+window) * share)
	testenv.Within(t, "cost", cost, allowed-3*dear, allowed+dear)
}

// TestJitter checks that periods differ, by 6 % at most, and keep the rate.
func TestJitter(t *testing.T) {
	waits, _ := pacing(1000, 100, 1, 10*time.Second, func(int) time.Duration { return 0 })
	testenv.Within(t, "the shortest period", slices.Min(waits), 940*time.Microsecond, 950*time.Microsecond)
	testenv.Within(t, "the longest period", slices.Max(waits), 1050*time.Microsecond, 1060*time.Microsecond)
	testenv.Within(t, "periods in ten seconds", len(waits), 9970, 10030)
}

// TestSuspended checks that a tick during which the machine was suspended does not stop sampling
// for long.
func TestSuspended(t *testing.T) {
	testenv.Same(t, "after a tick of an hour the next one comes after", newPacer(1000, 1, 0).next(time.Hour, time.Hour, 2), time.Minute)
}

// TestLate checks that late ticks are not followed by a burst of ticks.
func TestLate(t *testing.T) {
	p := newPacer(1000, 100, 0)
	p.random = func() float64 { return 0.5 }
	testenv.Same(t, "wait after the late tick", p.next(50*time.Millisecond, 0, 1), 0)
	for i := range 3 {
		testenv.Same(t, fmt.Sprintf("wait %d after the late tick", i), p.next(50*time.Millisecond+time.Duration(i)*time.Millisecond, 0, 1), time.Millisecond)
	}
}

// TestCPUOfLateLooks has a goroutine that runs all the time and gets a core for a part of it. Looks are late at
// times. What it has used must be in its samples, and what no goroutine has used in the row of the scheduler.
func TestCPUOfLateLooks(t *testing.T) {
	used, known := processTime()
	testenv.Same(t, "the process's time is known", known && used > 0, known || runtime.GOOS == "linux")
	for i, share := range []float64{0.1, 0.4, 0.6, 0.9, 0.5} {
		runs := i < 4
		c, r := cpu{known: true}, newRecorder()
		c.rows.Begin(0)
		var at, used, paid time.Duration
		for i := range 1000 {
			gap := 5 * time.Millisecond
			if i%10 == 0 {
				gap = 200 * time.Millisecond
			}
			at += gap
			used += time.Duration(share * float64(gap))
			c.pool += time.Duration(share * float64(gap))
			if runs && c.pay(gap) {
				paid += gap
			}
			c.settle(r, at, 2*gap, i == 999)
		}
		if runs {
			testenv.Within(t, fmt.Sprint(share, ": samples on the CPU"), paid, used*85/100, used+200*time.Millisecond)
		}
		sum, last := paid, map[uint64]time.Duration{}
		for _, s := range r.process {
			if s.Status&tachyon.OnCPU != 0 {
				sum += s.Time - last[s.Goroutine] // a sample without CPU time comes before each
			}
			last[s.Goroutine] = s.Time
		}
		testenv.Within(t, fmt.Sprint(share, ": samples and rows on the CPU"), sum, used-200*time.Millisecond, used+200*time.Millisecond)
	}
}
