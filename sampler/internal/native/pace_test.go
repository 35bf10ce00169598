//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// TestIdlePace checks that ticks come later while the program does nothing, and as usual at the first tick that finds
// that it has done something, or a goroutine that runs.
func TestIdlePace(t *testing.T) {
	const period = 1e6
	s := &shared{period: period, random: 0x9e3779b97f4a7c15, now: 1e9, before: 1e9, activity: activity{lastRan: 1e9, awake: uint64(idleAfter)}, passDue: ^uint64(0)}
	tick := func(running, events uint64) {
		s.before, s.now = s.now, max(s.deadline, s.now+1)
		s.found, s.events = running, events
		s.measured = s.now // or else the CPU time of this process would count
		next(s)
	}
	quiet := func(from uint64, awake time.Duration) (ticks int, longest uint64) {
		for s.now < from+uint64(5*time.Second) {
			tick(0, 0)
			idle, since := s.idle != 0, time.Duration(s.now-from)
			testenv.StopIf(t, idle && since < awake || !idle && since > awake+2*time.Duration(period), "%v after it did something the program counts as idle: %v, want %v", since, idle, awake)
			ticks++
			longest = max(longest, s.deadline-s.now)
		}
		return ticks, longest
	}
	ticks, longest := quiet(1e9, idleAfter)
	const rarestAfter = idlePart * idlestTicks // then ticks do not get rarer any more
	usual, more := float64(idleAfter)/period, idlePart*math.Log(float64(rarestAfter)/float64(idleAfter))
	idle := (5*time.Second - rarestAfter).Seconds() / idlestTicks.Seconds()
	want := usual + more + idle
	testenv.Within(t, "ticks", float64(ticks), want*0.9, want*1.1+10)
	testenv.Within(t, "the longest time between two", longest, period, uint64(idlestTicks)*3/2)
	// Ticks and ticks left out are those asked for. The times of the rare ones are random.
	testenv.Within(t, "ticks reached or left out in 5 s", float64(ticks)+float64(s.forIdle)/period, 4200, 5800)
	tick(1, 0)
	testenv.Within(t, "time after a tick that found something running", s.deadline-s.now, 0, period*3/2)
	tick(0, 0)
	testenv.Within(t, "time after a goroutine that ran for an instant", s.deadline-s.now, uint64(idlestTicks)/2, math.MaxUint64)
	for awake := idleAfter; awake <= 2*idleLatest; awake *= 2 { // each further tick that finds something doubles it
		tick(0, 1)
		testenv.Same(t, "idle after a tick that found a new goroutine", s.idle, 0)
		testenv.Within(t, "time after a tick that found a new goroutine", s.deadline-s.now, 0, period*3/2)
		for more := idleAfter; more < awake; more *= 2 {
			tick(0, 1)
		}
		quiet(s.now, min(awake, idleLatest))
	}
	s.hurry, s.asked = 1, period
	for range 10 {
		tick(0, 0)
		testenv.Same(t, "rest in a hurry", s.idle, 0)
	}
	s.hurry = 0
	quiet(s.now, idleAfter)
}

// TestHasRun checks that what has happened to goroutines and the CPU time of the process show that the program does something, without what
// the tick thread and the drain do.
func TestHasRun(t *testing.T) {
	runtime.LockOSThread() // this is the tick thread
	defer runtime.UnlockOSThread()
	s := &shared{passDue: ^uint64(0)}
	ran := func() bool {
		s.before, s.now = s.now, s.now+uint64(idleAfter)
		return hasRun(s)
	}
	work := func() { // for more than is nothing
		for begin := cost.ProcessCPU(); cost.ProcessCPU() < begin+2*uint64(idleAfter)/busyPart; {
		}
	}
	other := func() { // on another thread
		done := make(chan bool)
		go func() { work(); close(done) }()
		<-done
	}
	for _, step := range []struct {
		what  string
		first func()
		ran   bool
	}{
		{"nothing", func() {}, false},
		{"what the tick thread does", work, false},
		{"what another thread does", other, true},
		{"a pass of the drain", func() { before := cost.ProcessCPU(); other(); s.passing += cost.ProcessCPU() - before }, false},
		{"a new goroutine", func() { s.events = 1 }, true},
		{"a new goroutine in a pass of the drain", func() { s.passes++ }, false},
		{"the same after the pass", func() { s.passes += 2 - s.passes&1 }, false},
		{"the same when a pass is due", func() { s.passDue = s.now }, false},
		{"a new goroutine, with no pass", func() { s.passDue, s.ownUntil = ^uint64(0), 0 }, true},
	} {
		right := false
		testenv.Await(func() bool { // the collector may run
			s.ownUntil, s.now = 0, s.now+uint64(idleAfter)
			usesCPU(s)
			step.first()
			right = ran() == step.ran && idleSince(s, s.ran) != (step.ran && s.events == 0) // the drain sleeps beside events, not beside work
			return right
		})
		testenv.Same(t, step.what, right, true)
	}
}

// TestWakeDrain checks that the handler ends a long wait of the drain once something has run for
// cost.PassEvery or the ring is filling up, and only then.
func TestWakeDrain(t *testing.T) {
	bell := new(uint64)
	s := &shared{bell: uintptr(unsafe.Pointer(bell))}
	tick := func(ms uint64, ran bool) (woke bool) {
		s.now = ms * 1e6
		s.asleep, *bell = 1, 0
		wakeDrain(s, ran)
		testenv.Same(t, "asleep after the bell has rung", *bell == 0, s.asleep == 1)
		return *bell == 1
	}
	for _, step := range []struct {
		ms        uint64
		ran, wake bool
	}{
		{1, false, false}, {61, false, false}, {70, true, false}, {100, false, false}, {101, true, true}, {200, false, true},
	} {
		testenv.Same(t, step, tick(step.ms, step.ran), step.wake)
	}
	s.passes += 2
	testenv.Prints(t, "woken although nothing has run since the last pass", "false false", tick(201, false), tick(300, false))
	s.write = s.tail + ringWords/3
	testenv.Same(t, "woken when the ring is filling up", tick(301, false), true)
}

// TestRest checks how long the waits of the drain are, and that Stop ends all of them.
func TestRest(t *testing.T) {
	newSource := func() *Source {
		bell := new(uint64)
		return &Source{s: &shared{bell: uintptr(unsafe.Pointer(bell))}, bell: bell, budget: &cost.Budget{Every: cost.PassEvery}, quit: make(chan struct{}), done: make(chan struct{}),
			long: make(chan struct{}, 1), rung: make(chan struct{}, 1), deaf: make(chan struct{})}
	}
	synctest.Test(t, func(t *testing.T) {
		n := newSource()
		check := func(idle bool, want time.Duration) {
			t.Helper()
			begin := time.Now()
			testenv.Prints(t, "goes on, after some time, asleep, listen is told", fmt.Sprint("true ", want, " 0 0"), n.rest(idle, false), time.Since(begin), n.s.asleep, len(n.long))
		}
		check(false, cost.PassEvery)
		check(true, cost.PassIdle)
		go func() {
			time.Sleep(time.Millisecond)
			testenv.Prints(t, "in a long wait: asleep, listen is told", "1 1", n.s.asleep, len(n.long))
			n.rung <- struct{}{}
		}()
		check(true, time.Millisecond)
		close(n.deaf)
		check(true, cost.PassEvery)
		go func() {
			time.Sleep(time.Millisecond)
			testenv.Same(t, "the drain rests in a wait", n.resting.CompareAndSwap(true, false), true)
		}()
		testenv.Same(t, "goes on although Stop has taken its place", n.rest(false, false), false)
		close(n.quit)
		testenv.Prints(t, "goes on after Stop", "false false", n.rest(true, false), n.rest(false, false))
	})

	n := newSource()
	ring := func() {
		n.s.now, n.s.ranSince = uint64(time.Hour), true
		wakeDrain(n.s, true)
	}
	go n.listen()
	ring()
	testenv.Same(t, "bell while nobody waits for long", mem.LoadAcquire(n.s.bell), 0)
	n.s.asleep = 1
	n.long <- struct{}{}
	ring()
	<-n.rung
	go func() {
		for n.rest(true, false) {
		}
		close(n.done)
	}()
	n.endWaits()
	<-n.done
	<-n.deaf

	n = newSource()
	n.resting.Store(true)
	n.endWaits() // does not wait for a drain that rests and has no turn
}

// TestIdle checks that an idle program has few ticks, and that they are counted as such.
func TestIdle(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return // other tests wake the program up
	}
	var stats tachyon.Counts
	for idle := 800 * time.Millisecond; idle < time.Minute; idle *= 2 {
		_, stats = session(t, source.Config{Budget: 1}, func() { time.Sleep(idle) })
		// Stop makes some ticks come at once, to see each goroutine once more.
		if stats.TicksReached+stats.TicksIdle > stats.TicksAsked*11/10 || stats.TicksReached < 1 {
			break
		}
		if stats.TicksIdle > stats.TicksAsked/3 {
			return
		}
	}
	t.Errorf("%d ticks left out while idle, %d reached, %d asked", stats.TicksIdle, stats.TicksReached, stats.TicksAsked)
}
