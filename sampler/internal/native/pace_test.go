//go:build linux && (amd64 || arm64)

package native

import (
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

// TestIdlePace checks that ticks come later while nothing runs, and as usual at the first tick that finds
// something running.
func TestIdlePace(t *testing.T) {
	const period = 1e6
	s := &shared{period: period, random: 0x9e3779b97f4a7c15, now: 1e9, before: 1e9, lastRan: 1e9}
	tick := func(running uint64) {
		s.before, s.now = s.now, max(s.deadline, s.now+1)
		s.found = running
		s.passes += 2 // or else the CPU time of this process would count
		next(s)
	}
	quiet := func(from uint64) (ticks int, longest uint64) {
		for s.now < from+uint64(5*time.Second) {
			tick(0)
			if s.now < from+uint64(idleAfter) && s.idle != 0 {
				t.Fatalf("%v after something ran the program counts as idle", time.Duration(s.now-from))
			}
			ticks++
			longest = max(longest, s.deadline-s.now)
		}
		return ticks, longest
	}
	ticks, longest := quiet(1e9)
	const rarestAfter = idlePart * idlestTicks // then ticks do not get rarer any more
	usual, more := float64(idleAfter)/period, idlePart*math.Log(float64(rarestAfter)/float64(idleAfter))
	idle := (5*time.Second - rarestAfter).Seconds() / idlestTicks.Seconds()
	if want := usual + more + idle; float64(ticks) < want*0.9 || float64(ticks) > want*1.1+10 || longest > uint64(idlestTicks)*3/2 {
		t.Errorf("%d ticks, want %.0f; the longest time between two is %v", ticks, want, time.Duration(longest))
	}
	// Ticks and ticks left out are those asked for. The times of the rare ones are random.
	if all := float64(ticks) + float64(s.forIdle)/period; all < 4200 || all > 5800 {
		t.Errorf("%.0f ticks reached or left out in 5 s, %d asked", all, 5000)
	}
	tick(1)
	if s.idle != 0 || s.deadline-s.now > period*3/2 {
		t.Errorf("after a tick that found something running the next one comes after %v", time.Duration(s.deadline-s.now))
	}
	quiet(s.now)
	s.hurry = 1
	tick(0)
	if s.idle != 0 {
		t.Errorf("in a hurry ticks come later: after %v", time.Duration(s.idle))
	}
}

// TestHasRun checks that the CPU time of the process shows what ran between two ticks, without that of
// the tick thread and of the drain.
func TestHasRun(t *testing.T) {
	runtime.LockOSThread() // this is the tick thread
	defer runtime.UnlockOSThread()
	s := &shared{passDue: ^uint64(0)}
	ran := func() bool {
		s.before, s.now = s.now, s.now+1e9
		return hasRun(s)
	}
	if !ran() {
		t.Error("what was before the first tick does not count")
	}
	work := func() {
		for begin := cost.ProcessCPU(); cost.ProcessCPU() < begin+100_000; {
		}
	}
	alone := false
	testenv.Await(func() bool { // the collector may run
		ran()
		work()
		alone = !ran()
		return alone
	})
	if !alone {
		t.Error("the tick thread counts")
	}
	for _, step := range []struct {
		what  string
		first func()
		runs  bool // a goroutine works before it
		ran   bool
	}{
		{"what ran on another thread", func() {}, true, true},
		{"nothing", func() {}, false, false},
		{"a pass of the drain", func() { s.passes = 1 }, true, false},
		{"the rest of the pass", func() { s.passes = 2 }, true, false},
		{"nothing", func() {}, false, false},
		{"the beginning of a pass", func() { s.passDue = s.now }, true, false},
		{"nothing", func() { s.passDue = ^uint64(0) }, false, false},
		{"a goroutine that has moved", func() { s.stirred = 1 }, false, true},
		{"one that has moved in a pass of the drain", func() { s.passes = 4 }, false, false},
		{"nothing", func() { s.stirred = 0 }, false, false},
		{"a goroutine that runs", func() { s.found = 1 }, false, true},
		{"what ran at the tick before", func() { s.found = 0 }, false, true},
	} {
		if step.runs {
			done := make(chan bool)
			go func() { work(); close(done) }()
			<-done
		}
		if step.first(); ran() != step.ran && step.what != "nothing" {
			t.Errorf("%s counts: %v", step.what, !step.ran)
		}
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
		if (*bell == 0) != (s.asleep == 1) {
			t.Error("the drain counts as asleep after the bell has rung")
		}
		return *bell == 1
	}
	for _, step := range []struct {
		ms        uint64
		ran, wake bool
	}{
		{1, false, false}, {61, false, false}, {70, true, false}, {100, false, false}, {101, true, true}, {200, false, true},
	} {
		if woke := tick(step.ms, step.ran); woke != step.wake {
			t.Errorf("%+v: the drain is woken: %v", step, woke)
		}
	}
	s.passes += 2
	if tick(201, false) || tick(300, false) {
		t.Error("the drain is woken although nothing has run since its last pass")
	}
	s.write = s.tail + ringWords/3
	if !tick(301, false) {
		t.Error("the drain is not woken although the ring is filling up")
	}
}

// TestRest checks how long the waits of the drain are, and that Stop ends all of them.
func TestRest(t *testing.T) {
	newSource := func() *Source {
		bell := new(uint64)
		return &Source{s: &shared{bell: uintptr(unsafe.Pointer(bell))}, bell: bell, budget: &cost.Budget{Every: cost.PassEvery}, quit: make(chan struct{}), done: make(chan struct{}),
			rung: make(chan struct{}, 1), deaf: make(chan struct{})}
	}
	synctest.Test(t, func(t *testing.T) {
		n := newSource()
		check := func(idle bool, want time.Duration) {
			t.Helper()
			begin := time.Now()
			if goesOn, d := n.rest(idle, false), time.Since(begin); !goesOn || d != want || n.s.asleep != 0 {
				t.Errorf("goes on %v after %v, want %v; counts as asleep: %d", goesOn, d, want, n.s.asleep)
			}
		}
		check(false, cost.PassEvery)
		check(true, cost.PassIdle)
		go func() {
			time.Sleep(time.Millisecond)
			if n.s.asleep != 1 {
				t.Error("the drain does not count as asleep in a long wait")
			}
			n.rung <- struct{}{}
		}()
		check(true, time.Millisecond)
		close(n.deaf)
		check(true, cost.PassEvery)
		go func() {
			time.Sleep(time.Millisecond)
			if !n.resting.CompareAndSwap(true, false) {
				t.Error("the drain does not rest in a wait")
			}
		}()
		if n.rest(false, false) {
			t.Error("it goes on although Stop has taken its place")
		}
		close(n.quit)
		if n.rest(true, false) || n.rest(false, false) {
			t.Error("it goes on after Stop")
		}
	})

	n := newSource()
	ring := func() {
		n.s.now, n.s.ranSince = uint64(time.Hour), true
		wakeDrain(n.s, true)
	}
	go n.listen()
	if ring(); mem.LoadAcquire(n.s.bell) != 0 {
		t.Error("the bell rings while nobody waits for long")
	}
	n.s.asleep = 1
	ring()
	select {
	case <-n.rung:
	case <-time.After(time.Minute):
		t.Fatal("the bell is not heard")
	}
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
	var stats tachyon.Counts
	for idle := 400 * time.Millisecond; idle < time.Minute; idle *= 2 {
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
