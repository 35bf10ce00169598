package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/testenv"
)

// A Setting says what a process measures.
type Setting struct {
	Profiler   string
	Goroutines int
	Rate       int           // ticks a second, for profilers with a variable rate
	Pairs      int           // number of pairs of windows; one more window has no profiler
	Window     time.Duration // duration of each window
	Settle     time.Duration // time from the start of a session to its window
}

// A row is the result of a process. The package comment defines the figures. A figure is NaN
// if the profiler or the system does not provide it.
type row struct {
	Setting
	Asked int // ticks a second that the profiler was asked for

	Look float64 // tick time, s
	CPU  float64 // CPU time per tick, s
	Seen float64 // share of the goroutines that a tick sampled while Look and CPU were measured
	RSS  float64 // bytes

	Reached    float64    // share of the ticks asked for
	Counted    float64    // the lowest such share of a session in gotach's metadata; 1 for other profilers
	Gap        [2]float64 // s: p50, p99
	Slowdown   [3]float64 // share: lower quartile, median, upper quartile
	Stops      float64    // stops of the world a second
	StopsTotal float64    // number of stops
	Written    float64    // bytes a second
}

// measure measures a row. It needs a separate process, because it leaves goroutines running.
func measure(s Setting) (row, error) {
	r := row{Setting: s}
	kind, err := kindOf(s.Profiler)
	if err != nil {
		return r, err
	}
	r.Asked = kind.rate
	if r.Asked == 0 {
		r.Asked = s.Rate
	}
	if err := park(s.Goroutines); err != nil {
		return r, err
	}
	if err := r.alone(kind); err != nil {
		return r, err
	}
	err = r.loaded(kind, startLoad())
	return r, err
}

// alone measures the cost of a tick that samples all goroutines, without a load.
func (r *row) alone(kind profilerKind) error {
	// gotach's native source can sample a million goroutines a second.
	rate := max(1, min(r.Asked, 1_000_000/r.Goroutines))
	window := max(r.Window, 30*time.Second/time.Duration(rate))
	debug.FreeOSMemory()
	before, idle, begin := residentBytes(), processCPU(), time.Now()
	time.Sleep(r.Window)
	idle = (processCPU() - idle) * time.Second / time.Since(begin) // CPU time per second

	s, err := kind.start(rate, 100)
	if err != nil {
		return err
	}
	most := before
	watch := func(d time.Duration) {
		for begin := time.Now(); time.Since(begin) < d; {
			time.Sleep(d / 10)
			most = max(most, residentBytes())
		}
	}
	// gotach samples few goroutines at its first ticks and more at each following tick.
	watch(r.Settle + 40*time.Second/time.Duration(rate))
	threads := timerThreads()
	cpu, ticker, stops, from := processCPU(), sum(threads, threadCPU), float64(testenv.Pauses()), time.Now()
	watch(window)
	to := time.Now()
	cpu, ticker, stops = processCPU()-cpu, sum(threads, threadCPU)-ticker, float64(testenv.Pauses())-stops
	t, err := s.stop()
	if err != nil {
		return err
	}
	t = t.within(from, to)

	ticks := float64(len(t.ticks))
	switch {
	case kind.stopsTwice:
		ticks = stops / 2
	case kind.bare:
		ticks = float64(rate) * to.Sub(from).Seconds()
	}
	r.Look, r.CPU, r.Seen = math.NaN(), math.NaN(), 1
	r.RSS = most - before
	if kind.inCPU || ticks == 0 {
		return nil
	}
	if cpu > 0 {
		r.CPU = (cpu.Seconds() - idle.Seconds()*to.Sub(from).Seconds()) / ticks
	}
	switch {
	case t.looks != nil:
		slices.Sort(t.looks)
		r.Look = t.looks[len(t.looks)/2].Seconds()
	case ticker > 0:
		r.Look = ticker.Seconds() / ticks
	}
	if t.samples != nil {
		r.Seen = float64(sum(t.samples, func(n int) int { return n })) / ticks / float64(r.Goroutines)
	}
	return nil
}

// enough is the least number of pairs. Pairs take long with a profiler that stops the world
// for most of the time.
const enough = 5

// loaded measures sessions with a load, and their effect on the load. It compares each
// window with a session with the windows before and after, which have none. This is
// necessary because a machine's speed changes from second to second by more than the cost of
// a session.
func (r *row) loaded(kind profilerKind, l *load) error {
	var (
		slowdown, gaps []float64
		ticks, asked   float64
		length, stops  float64
		bytes, span    float64
	)
	r.Counted = 1
	without := func() float64 {
		runtime.GC()
		time.Sleep(r.Settle / 5) // the load gets back to speed after the collection
		speed, _, _ := l.window(r.Window)
		return speed
	}
	before := without()
	begin, most := time.Now(), time.Duration(r.Pairs)*3*time.Second
	for len(slowdown) < r.Pairs && (len(slowdown) < enough || time.Since(begin) < most) {
		runtime.GC()
		begin := time.Now()
		s, err := kind.start(r.Asked, kind.budget)
		if err != nil {
			return err
		}
		time.Sleep(r.Settle)
		was := float64(testenv.Pauses())
		with, from, to := l.window(r.Window)
		n := float64(testenv.Pauses()) - was
		end := time.Now()
		t, err := s.stop()
		if err != nil {
			return err
		}
		stops += n
		length += to.Sub(from).Seconds()
		bytes += float64(t.bytes)
		if t.counted > 0 {
			r.Counted = min(r.Counted, t.counted)
		}
		span += end.Sub(begin).Seconds()

		switch in := t.within(from, to); {
		case kind.bare:
			ticks = math.NaN()
		case kind.stopsTwice:
			ticks += n / 2
			asked += float64(r.Asked) * to.Sub(from).Seconds()
		case kind.inCPU:
			ticks += float64(t.count)
			asked += float64(r.Asked*runtime.GOMAXPROCS(0)) * end.Sub(begin).Seconds()
		default:
			ticks += float64(len(in.ticks))
			asked += float64(r.Asked) * to.Sub(from).Seconds()
			// The times before the first and after the last tick are gaps too.
			last := from
			for _, at := range append(in.ticks, to) {
				gaps = append(gaps, at.Sub(last).Seconds())
				last = at
			}
		}
		after := without()
		slowdown = append(slowdown, 1-2*with/(before+after))
		before = after
	}
	r.Reached = ticks / asked
	r.Gap = [2]float64{quantile(gaps, 0.5), quantile(gaps, 0.99)}
	r.Slowdown = [3]float64{quantile(slowdown, 0.25), quantile(slowdown, 0.5), quantile(slowdown, 0.75)}
	r.Stops, r.StopsTotal = stops/length, stops
	r.Written = bytes / span
	return nil
}

// window returns the load's speed, in blocks a second, over the duration d from now on.
func (l *load) window(d time.Duration) (speed float64, from, to time.Time) {
	from = time.Now()
	n := l.blocks()
	time.Sleep(d)
	n = l.blocks() - n
	to = time.Now()
	return float64(n) / to.Sub(from).Seconds(), from, to
}

// quantile returns the q-quantile of v with linear interpolation, or NaN if v is empty.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 == len(v) {
		return v[i]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

func sum[T any, N int | time.Duration](s []T, of func(T) N) (n N) {
	for _, e := range s {
		n += of(e)
	}
	return n
}
