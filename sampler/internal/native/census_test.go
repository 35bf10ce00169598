//go:build linux && (amd64 || arm64)

package native

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/mem"
)

// TestCountUp counts goroutines in made-up counters of the runtime, and adds up their number over some ticks.
func TestCountUp(t *testing.T) {
	f := newFakes(t)
	defer unix.Munmap(f.memory)
	s := f.s
	s.allgs, s.sched, s.procs, s.nprocs = f.g(0), f.g(1), f.g(2), 2
	s.Off.SchedFree, s.Off.SchedFreeBare, s.Off.SchedSystem, s.Off.PFree = 0, 8, 16, 24
	all := func(n uint64) { mem.Store64(s.allgs+8, n) }
	for i, n := range []uint32{10, 5, 4} {
		mem.Store32(s.sched+uintptr(i)*8, n)
	}
	for i, n := range []uint32{3, 2} {
		mem.Store64(s.procs+uintptr(i)*8, uint64(f.g(3+uint64(i))))
		mem.Store32(f.g(3+uint64(i))+24, n)
	}
	if all(20); s.count() != 0 {
		t.Errorf("%d goroutines, although fewer than none are left", s.count())
	}
	if all(100); s.count() != 76 {
		t.Errorf("%d goroutines, want 76", s.count())
	}
	s.living = s.count()
	for _, tick := range []struct{ all, stalled, shift, area uint64 }{
		{104, 0, 0, 78_000}, // 76 and then 80 goroutines: 78 in the mean, for 1000 µs
		{100, 400_000, 100_000, 78_000 + 80*100 + 76*300 + 78*600},
		{100, 1_000_000, 1_000_000, 78_000 + 77_600 + 76_000},
	} {
		s.before, s.now, s.stalled, s.shift = s.now, s.now+1e6, tick.stalled, tick.shift
		all(tick.all)
		if s.countUp(); s.area != tick.area || s.living != tick.all-24 {
			t.Errorf("%+v: the integral is %d, of %d goroutines at last", tick, s.area, s.living)
		}
	}
}

// TestLackBesideOthers has ten thousand goroutines that are there all the time. The error of the integral
// does not grow with their number.
func TestLackBesideOthers(t *testing.T) {
	const stay, period = 10_000, 10 * time.Millisecond
	for _, missing := range []time.Duration{0, time.Second} {
		d := &drain{s: new(shared), end: true}
		for area := time.Duration(0); d.now < 3*time.Second; d.now += period {
			area += (stay + d.now/period%7*10) * period
			d.lacks.ticked(area, d.now+period, d.now)
		}
		d.lacks.weights = d.lacks.area - missing
		if got := d.lack(); got != missing { // no look has found any of it
			t.Errorf("%v not seen, want %v", got, missing)
		}
	}
}

// TestLack has ten goroutines in a session of three seconds. Two of them have no sample.
func TestLack(t *testing.T) {
	d := &drain{s: new(shared)}
	gs := make([]goroutine, 8)
	for now := time.Second; now <= 3*time.Second; now += time.Second {
		d.now, d.lacks.area = now, 10*now
		d.end = now == 3*time.Second
		for i := range gs {
			if i == 0 && !d.end {
				continue // its first sample comes at the end
			}
			g := &gs[i]
			d.lacks.sampled(g, now, now)
			g.seen, g.last = true, now
		}
		// The latest figure counts only if the one before was as high.
		want := []time.Duration{0, 3 * time.Second, 6 * time.Second}[now/time.Second-1]
		if got := d.lack(); got != want {
			t.Errorf("after %v: %v not seen, want %v", now, got, want)
		}
	}
	for i := range gs {
		d.lacks.ended(&gs[i])
	}
	if d.lacks.living != 0 || d.lacks.last != 0 {
		t.Errorf("%d goroutines are left, with %v", d.lacks.living, d.lacks.last)
	}
}
