//go:build linux && (amd64 || arm64)

package native

import (
	"math"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/gotach/profiler/sampler/internal/source"
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
	alone := false
	for range 100 {
		for begin := time.Now(); time.Since(begin) < 100*time.Microsecond; {
		}
		alone = alone || !ran() // the collector may run
	}
	if !alone {
		t.Error("the tick thread counts")
	}
	spin := func() {
		done := make(chan bool)
		go func() {
			for begin := time.Now(); time.Since(begin) < 100*time.Microsecond; {
			}
			done <- true
		}()
		<-done
	}
	spin()
	if !ran() {
		t.Error("what ran on another thread does not count")
	}
	ran()
	spin()
	s.passes = 1
	if ran() {
		t.Error("the drain counts")
	}
	spin()
	s.passes = 2
	if ran() {
		t.Error("the rest of the drain's pass counts")
	}
	ran()
	spin()
	if s.passDue = s.now; ran() {
		t.Error("the beginning of the drain's pass counts")
	}
	s.passDue = ^uint64(0)
	ran()
	if s.found = 1; !ran() {
		t.Error("a goroutine that runs does not count")
	}
	if s.found = 0; !ran() {
		t.Error("what ran at the tick before does not count")
	}
}

// TestWakeDrain checks that the handler ends a long wait of the drain once something has run for
// drainEvery or the ring is filling up, and only then.
func TestWakeDrain(t *testing.T) {
	s := &shared{}
	tick := func(ms uint64, ran bool) (woke bool) {
		s.now = ms * 1e6
		s.asleep, s.bell = 1, 0
		wakeDrain(s, ran)
		if (s.bell == 0) != (s.asleep == 1) {
			t.Error("the drain counts as asleep after the bell has rung")
		}
		return s.bell == 1
	}
	for _, step := range []struct {
		ms        uint64
		ran, wake bool
	}{
		{1, false, false}, {61, false, false}, {70, true, false}, {80, false, false}, {81, true, true}, {200, false, true},
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

// TestRest checks which waits of the drain the bell ends, and that Stop ends all of them.
func TestRest(t *testing.T) {
	s := &shared{}
	n := &Source{s: s, budget: &budget{every: drainEvery}, quit: make(chan struct{}), done: make(chan struct{}), rung: make(chan struct{}, 1), deaf: make(chan struct{})}
	go n.listen()
	ring := func() {
		s.now, s.ranSince = uint64(time.Hour), true
		wakeDrain(s, true)
	}
	if !n.rest(false) {
		t.Error("a short wait ends the loop")
	}
	if ring(); loadAcquire(uintptr(unsafe.Pointer(&s.bell))) != 0 {
		t.Error("the bell rings while nobody waits for long")
	}
	for tries := 0; ; tries++ {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for loadAcquire(uintptr(unsafe.Pointer(&s.asleep))) == 0 {
				time.Sleep(time.Millisecond)
			}
			ring()
		}()
		begin := time.Now()
		goesOn := n.rest(true)
		<-done
		if !goesOn {
			t.Fatal("a long wait ends the loop")
		}
		if time.Since(begin) < drainIdle*9/10 {
			break
		}
		if tries == 10 {
			t.Fatal("the bell does not end a wait")
		}
	}
	if s.asleep != 0 {
		t.Error("the drain counts as asleep after its wait")
	}
	go func() { n.rest(true); n.rest(true); close(n.done) }()
	n.endWaits()
	if n.hears() || n.rest(true) {
		t.Error("it goes on after Stop")
	}
}

// TestIdle checks that an idle program has few ticks, and that they are counted as such.
func TestIdle(t *testing.T) {
	const idle = 3 * time.Second
	_, stats := session(t, source.Config{Budget: 1}, func() {
		time.Sleep(idle)
	})
	t.Logf("%+v", stats)
	if most := stats.TicksAsked / 2; stats.TicksReached > most || stats.TicksReached < 1 {
		t.Errorf("%d ticks of %d", stats.TicksReached, stats.TicksAsked)
	}
	if stats.TicksIdle == 0 || stats.TicksReached+stats.TicksIdle > stats.TicksAsked {
		t.Errorf("%d ticks left out while idle, %d reached, %d asked", stats.TicksIdle, stats.TicksReached, stats.TicksAsked)
	}
}
