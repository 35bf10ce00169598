// Package portable is the source that needs only the public runtime API.
//
// At each tick it calls runtime.Stack once for all goroutines and parses the text. Unlike
// runtime.GoroutineProfile, the text has each goroutine's id, wait reason, creator and pprof
// labels. One such call is a look.
//
// runtime.Stack stops the whole program while it prints: a tenth of a millisecond with ten
// goroutines, a tenth of a second with ten thousand. A pacer lowers the rate of ticks so that the
// average cost stays within the budget. A limit bounds each stop: if a look would take longer
// than Config.MaxPause, the source takes no looks until there are fewer goroutines. The default
// of 10 ms is enough for some 2,000 goroutines with short stacks. The source warns once, and
// counts the ticks and the time without looks. A goroutine's first sample after such a time stands
// for all of it.
//
// The text has these gaps:
//
//   - It does not show which goroutines were running. When the world has stopped, they are
//     runnable, like those that waited for a P, and this source's own goroutine has taken the P
//     of one of them. So each tick chooses as many runnable goroutines as there are Ps, at
//     random, and marks them as running. Over many ticks each runnable goroutine gets its share
//     of the CPU. These samples are on the CPU as far as the process has used it; see cpu.go.
//   - It misses some short runs between two waits while every P is busy. Then this source's
//     goroutine gets a P when another goroutine waits or has used up its time slice of 10 ms. So
//     short runs are sampled less often than they happen.
//   - It has no labels before Go 1.26. In Go 1.26 and later it has them only if the program's
//     go.mod says go 1.27 or later, or GODEBUG has tracebacklabels=1.
//   - It omits the runtime's own goroutines and most runtime frames.
//   - It omits the middle of stacks of more than 100 frames. A frame "[frames elided]" takes its
//     place.
package portable

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/deadlock"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// The sizes of the text buffer.
const (
	minBuffer = 64 << 10
	// maxBuffer is enough for some 60,000 goroutines; with more there are no looks. A larger
	// buffer would be the largest object of many programs.
	maxBuffer = 64 << 20
	// perGoroutine is the first estimate of the text of one goroutine, in bytes.
	perGoroutine = 1 << 10
	// After shrinkAfter ticks in a row that leave most of the buffer unused, a smaller buffer
	// replaces it.
	shrinkAfter = 256
)

// restart is the cost of a tick on other threads, which the source cannot measure: after a stop
// of the world the runtime wakes threads, which look for work. In an idle program on two cores a
// tick took 135 µs on the source's thread and 385 µs in the whole process.
const restart = 120 * time.Microsecond

// Source is the portable source.
type Source struct {
	cfg   source.Config
	out   source.Out
	quit  chan struct{}
	ended sync.WaitGroup

	snapshot   snapshot
	limit      limit
	buf        []byte
	standstill standstill
	slack      int // ticks in a row that left most of buf unused, or were refused

	began   time.Duration
	ticks   atomic.Int64
	dropped atomic.Int64
	torn    atomic.Int64
	cost    atomic.Int64
	refused atomic.Int64
	used    atomic.Int64 // CPU time of the process
	blind   atomic.Int64 // ns without looks, without the present such time
	blindAt atomic.Int64 // start of the present time without looks; 0: there are looks
	stopped atomic.Int64 // when the source stopped; 0: it runs
}

// New returns a source that is not started.
func New() *Source { return &Source{quit: make(chan struct{})} }

// Start begins to sample. It never fails.
func (s *Source) Start(cfg source.Config, out source.Out) error {
	s.cfg, s.out = cfg, out
	s.began = time.Since(cfg.Start)
	s.snapshot.init(out, cfg.WaitFrames)
	s.snapshot.before = s.began
	s.snapshot.cpu = newCPU(s.began)
	s.ended.Add(1)
	own.Go(s.run)
	return nil
}

// Stop ends sampling after one more tick, if the limit allows it.
func (s *Source) Stop() {
	close(s.quit)
	s.ended.Wait()
}

// Look returns a closed channel: each tick looks at every goroutine.
func (*Source) Look() <-chan struct{} { return looked }

var looked = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Progress returns what files say of the source.
func (s *Source) Progress() tachyon.Progress {
	now := time.Duration(s.stopped.Load())
	if now == 0 {
		now = time.Since(s.cfg.Start)
	}
	blind := time.Duration(s.blind.Load())
	if at := time.Duration(s.blindAt.Load()); at > 0 {
		blind += max(now-at, 0)
	}
	return tachyon.Progress{Source: "portable", Counts: tachyon.Counts{
		// The first tick is at time 0.
		TicksAsked:   1 + int64(float64(now-s.began)/float64(time.Second)*float64(s.cfg.Rate)),
		TicksReached: s.ticks.Load(),
		Dropped:      s.dropped.Load(),
		Torn:         s.torn.Load(),
		Cost:         time.Duration(s.cost.Load()),
		TicksRefused: s.refused.Load(),
		Blind:        blind,
		ProcessCPU:   time.Duration(s.used.Load()),
	}}
}

// run takes ticks until Stop. A panic here or in Out must not end the profiled program.
func (s *Source) run() {
	defer s.ended.Done()
	defer func() {
		s.stopped.Store(int64(time.Since(s.cfg.Start)))
		if p := recover(); p != nil {
			s.out.Fail(fmt.Errorf("the portable source panicked: %v\n%s", p, debug.Stack()))
		}
	}()
	s.limit = newLimit(s.cfg.MaxPause)
	pace := newPacer(s.cfg.Rate, s.cfg.Budget, s.began)
	timer := time.NewTimer(0)
	defer timer.Stop()
	s.standstill.on = deadlock.Possible()
	for stopping := false; !stopping; {
		select {
		case <-s.quit:
			// Take one more tick, because the last one can be a second or more ago.
			stopping = true
		case <-timer.C:
		}
		procs := runtime.GOMAXPROCS(0)
		cost := s.tick(procs, stopping)
		s.cost.Add(int64(cost))
		if st := &s.standstill; st.on && !stopping && st.watch.Look(time.Now(), st.stuck, st.mark) && st.confirm(func() { s.tick(procs, false) }) {
			s.out.Fail(deadlock.Err)
			return
		}
		timer.Reset(pace.next(time.Since(s.cfg.Start), cost, s.cfg.MayUse()))
	}
}

// tick takes one look at all goroutines, if the limit allows it, and returns the CPU time that it
// cost. last says that there will be no other tick.
func (s *Source) tick(procs int, last bool) time.Duration {
	// All readings of the thread's clock must come from the same thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	watch := startWatch()
	defer func() { s.snapshot.cpu.own += watch.took() }()
	at := time.Since(s.cfg.Start)
	goroutines := s.count()
	expect, refusal := s.limit.allow(goroutines, at)
	if refusal != nil {
		s.refuse(refusal)
		s.standstill.stuck = false
		return min(watch.took(), expect.pause) // a probe takes less than the look that it estimates
	}
	s.see(at)
	s.fit(goroutines, expect.text)
	at = time.Since(s.cfg.Start)
	before := watch.took()
	n := runtime.Stack(s.buf, true)
	printed := watch.took() - before
	all := n < len(s.buf)

	lost := s.snapshot.read(s.buf[:n], all)
	if all {
		// NumGoroutine counts goroutines that have ended while a collection frees their stacks.
		goroutines = s.snapshot.goroutines + 1
	} else {
		// The text is cut off. The missing goroutines are counted, except those that
		// began or ended meanwhile; NumGoroutine includes this one.
		lost.dropped += max(0, int64(runtime.NumGoroutine()-1-s.snapshot.goroutines))
	}
	s.limit.looked(goroutines, printed, n)
	s.standstill.stuck, s.standstill.mark = s.snapshot.stuck(all && lost.dropped == 0)
	s.dropped.Add(lost.dropped)
	s.torn.Add(lost.torn)
	s.out.Batch(func() {
		c := &s.snapshot.cpu
		c.look(c.own)
		c.own = 0
		passed := time.Duration(procs) * (at - s.snapshot.before)
		s.snapshot.emit(at, procs, rand.IntN)
		c.settle(s.out, at, passed, last)
	})
	s.used.Store(int64(s.snapshot.cpu.used - s.snapshot.cpu.base))
	s.resize(n)
	s.ticks.Add(1)
	s.out.Counted()
	return s.limit.spent(n, procs, printed, watch.took()-printed, watch.known)
}

var numGoroutine = runtime.NumGoroutine // replaced in tests

// count returns the number of goroutines. NumGoroutine counts those that have ended too while a
// collection frees their stacks. So if the number has more than doubled since the last look, count
// asks again a moment later.
func (s *Source) count() int {
	n := numGoroutine()
	if last := s.limit.goroutines; last > 0 && n > 2*last && s.blindAt.Load() == 0 {
		time.Sleep(time.Millisecond)
		n = min(n, numGoroutine())
	}
	return n
}

// refuse counts a tick without a look. The first time it warns.
func (s *Source) refuse(why error) {
	if s.blindAt.Load() == 0 {
		s.blindAt.Store(int64(max(s.snapshot.before, 1)))
	}
	if s.refused.Add(1) == 1 && s.cfg.Warn != nil {
		s.cfg.Warn(fmt.Errorf("no profile of this time: %w", why))
	}
	if s.slack++; s.slack >= shrinkAfter {
		s.buf = nil // there may be no looks for a long time
	}
}

// see ends a time without looks, if there is one.
func (s *Source) see(at time.Duration) {
	if from := s.blindAt.Swap(0); from > 0 {
		s.blind.Add(int64(at) - from)
	}
}

// stopwatch measures the CPU time of the thread. If the system does not provide that, it measures
// wall-clock time, which is never less.
type stopwatch struct {
	wall, thread time.Duration
	known        bool
}

func startWatch() (w stopwatch) {
	w.wall = wallTime()
	w.thread, w.known = threadTime()
	return w
}

func (w *stopwatch) took() time.Duration {
	wall := max(wallTime()-w.wall, 0) // someone may set the clock
	if t, ok := threadTime(); ok && w.known {
		return min(wall, t-w.thread)
	}
	return wall
}

// fit allocates the buffer if there is none. text is the expected size of the text.
func (s *Source) fit(goroutines, text int) {
	if s.buf == nil {
		s.buf = make([]byte, min(max(minBuffer, goroutines*perGoroutine, text), maxBuffer))
	}
}

// resize adapts the buffer for the next tick. n is the size of the last text.
func (s *Source) resize(n int) {
	size := len(s.buf)
	switch {
	case n == size:
		s.slack = 0
		if size < maxBuffer {
			guess := runtime.NumGoroutine() * perGoroutine
			s.buf = make([]byte, min(max(2*size, guess), maxBuffer))
		}
	case n < size/8 && size > minBuffer:
		if s.slack++; s.slack >= shrinkAfter {
			s.slack = 0
			s.buf = make([]byte, max(size/4, minBuffer))
		}
	default:
		s.slack = 0
	}
}

// stuck reports whether all goroutines of the last text, except the profiler's own, have wait
// reasons that can be part of a deadlock. mark changes when one of their stacks changes. all says
// that the text is complete.
func (s *snapshot) stuck(all bool) (stuck bool, mark uint64) {
	if !all {
		return false, 0
	}
	for _, g := range s.now {
		if g.skip {
			continue
		}
		if !g.reason.stuck {
			return false, 0
		}
		mark = mark*0x9e3779b97f4a7c15 + (g.id ^ g.body)
	}
	return true, mark
}

// standstill finds deadlocks that the session hides; see package deadlock.
type standstill struct {
	on    bool
	watch deadlock.Watch
	stuck bool // at the last tick
	mark  uint64
}

// confirm reports whether there is a deadlock. The source must have no timer set. look takes one
// more tick.
func (s *standstill) confirm(look func()) bool {
	v := deadlock.Confirm()
	look()
	return s.watch.Conclude(v, s.stuck, s.mark)
}
