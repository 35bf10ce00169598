//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/source"
	"golang.org/x/sys/unix"
)

// TestMaxTracked has more goroutines than maxTracked.
func TestMaxTracked(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return // there are gs that the tests before have left
	}
	maxTracked = 500
	var free []func()
	parks := func(n int) func() { return func() { free = append(free, park(n)) } }
	parks(300)()
	t.Run("during the session only", func(t *testing.T) { testMaxTracked(t, 300, parks(1000)) })
	before := runtime.NumGoroutine()
	park(2000)() // the list has goroutines that have ended: they do not count
	testenv.Await(func() bool { return runtime.NumGoroutine() <= before })
	parks(3000)()
	t.Run("all the time", func(t *testing.T) { testMaxTracked(t, 3300, func() {}) })
	for _, f := range free {
		f()
	}
	park(20_000)()
	defer park(300)()
	t.Run("in the list only", testRosterIsBounded)
}

//go:noinline
func untracked(stop *atomic.Bool) {
	for !stop.Load() {
	}
}

// testMaxTracked samples some of the goroutines that wait, and all that run.
func testMaxTracked(t *testing.T, left int64, more func()) {
	var seen, running atomic.Int64
	all := map[uint64]bool{}
	var warnings []error
	_, counts := watch(t, source.Config{WaitFrames: true, Warn: func(err error) { warnings = append(warnings, err) }}, func(s *taken) {
		if !all[s.goroutine] {
			all[s.goroutine] = true
			seen.Add(1)
		}
		if slices.Contains(names(s.stack), here+"untracked") {
			running.Add(1)
		}
	}, func() {
		more()
		var stop atomic.Bool
		var ended sync.WaitGroup
		for range 2 {
			ended.Go(func() { untracked(&stop) })
		}
		testenv.Await(func() bool { return seen.Load() >= 400 && running.Load() >= 50 })
		stop.Store(true)
		ended.Wait()
	})
	// Those that were found running, as when they began, are sampled too from then on, up to as many again.
	testenv.Within(t, "goroutines with samples", seen.Load(), 400, 2*int64(maxTracked))
	testenv.Within(t, "samples of running ones", running.Load(), 50, math.MaxInt64)
	testenv.Within(t, "untracked", counts.GoroutinesUntracked, left, left+600)
	testenv.Same(t, "warnings", len(warnings), 1)
}

// testRosterIsBounded reads a list with few living goroutines and many that have ended. Neither the roster nor the
// memory that refresh takes may follow the length of the list, and ticks may add nothing to a full roster.
func testRosterIsBounded(t *testing.T) {
	n := New()
	n.cfg, n.patience = source.Config{Rate: 100, Budget: 1, Start: time.Now()}, cost.NewPatience(cost.CPUOfThread(), false)
	l, err := goruntime.LayoutOf(n.version)
	testenv.OK(t, err)
	testenv.OK(t, mem.UnlessFault(func() error { return n.prepare(l) }))
	defer n.release()
	r := &roster{s: n.s, l: l, allp: n.drain.roster.allp}
	n.s.goroutines, n.s.listed = 0, 0
	defer r.free()
	testenv.Bounded(t, 120_000, func() { err = r.refresh() })
	testenv.OK(t, err)
	testenv.Within(t, "entries taken", r.taken, uint64(maxTracked), uint64(maxTracked+newAtOnce))
	testenv.Within(t, "entries read", n.s.listed, 20_000, math.MaxUint64)
	testenv.Same(t, "entries left out", r.left, n.s.listed-r.taken)
	for fake := uint64(1); err == nil; fake++ {
		err = r.include(fake)
	}
	testenv.Is(t, "a full roster", err, errFull)
	testenv.Same(t, "entries", r.taken, uint64(2*maxTracked))
	testenv.Prints(t, "ticks add entries to a full roster", "<nil> 0", r.handOver(monotonicNow()), r.s.adds)
}

// TestOneStack checks bounds of one stack and bounds that come from two stacks.
func TestOneStack(t *testing.T) {
	for _, c := range []struct {
		lo, hi uintptr
		want   bool
	}{
		{0xc000100000, 0xc000100800, true},
		{0xc000100000, 0xc000108000, true},
		{0xc000100000, 0xc000101800, false}, // hi of another stack
		{0xc000100800, 0xc000100000, false},
		{0xc000100000, 0xc000100000, false},
		{0, 0, false},
	} {
		testenv.Same(t, fmt.Sprintf("%#x to %#x", c.lo, c.hi), goruntime.OneStack(c.lo, c.hi), c.want)
	}
}

// TestReadNew reads lists that the runtime is about to change. Goroutines in new gs are visited at the same tick.
func TestReadNew(t *testing.T) {
	f := newFakes(t)
	s := f.s
	memory := testenv.Must(mem.Map(4096)) // the list
	defer unix.Munmap(memory)
	list := memory.Addr()
	s.pid, s.allgs = uint64(unix.Getpid()), f.g(mostFakes-1)
	s.adds, s.mapped, s.most = 1, chunkSize, 90
	length := func(n uint64) { mem.Store64(s.allgs+8, n) }
	mem.Store64(s.allgs, uint64(list))
	for i := range uint64(100) {
		mem.Store64(list+uintptr(i)*8, uint64(f.g(i)))
		mem.Store32(f.g(i)+s.Off.GStatus, goruntime.GDead)
	}
	tick := func(want uint64, complete bool) {
		t.Helper()
		before := s.listedAt
		s.before, s.now = s.now, s.now+s.period
		addNew(s)
		testenv.Prints(t, "entries, and read", fmt.Sprint(want, want), s.goroutines, s.listed)
		if complete {
			before = s.now
		}
		testenv.Same(t, "time at which all was read", s.listedAt, before)
	}
	length(3)
	tick(3, true)
	length(50)
	mem.Store64(list+40*8, 0) // not stored yet
	tick(40, false)
	since := s.listedAt
	mem.Store64(list+40*8, uint64(f.g(40)))
	tick(50, true)
	for i := range s.goroutines {
		testenv.Same(t, fmt.Sprint("entry ", i), mem.Load64(s.entry(i)+entryG*8), uint64(f.g(i)))
	}
	testenv.Same(t, "beginning of the goroutine of an entry of a later tick", mem.Load64(s.entry(45)+entryLooked*8), since)
	length(60)
	if !mem.PlainReads {
		mem.Store64(list+55*8, 1<<40) // not mapped
		tick(55, false)
		mem.Store64(list+55*8, uint64(list)) // no g
		mem.Store64(list+s.Off.GStatus, 99)
		tick(55, false)
		mem.Store64(list+s.Off.GStatus, uint64(f.g(uint64(s.Off.GStatus/8))))
		mem.Store64(list+55*8, uint64(f.g(55)))
		mem.Store64(s.allgs, 1<<40) // not mapped
		tick(55, false)
		mem.Store64(s.allgs, uint64(list))
	}
	tick(60, true)

	allot(s, 10)
	f.tick(t)
	listed := s.listedAt
	length(70)
	for i := uint64(60); i < 70; i++ {
		f.start(i)
	}
	addNew(s)
	told := f.tick(t)
	for goid := range f.began {
		since, visited := told[goid]
		testenv.FailIf(t, !visited || since != s.now-listed, "goroutine %d in a new g: visited %v, for the time since %d", goid, visited, s.now-since)
	}

	length(100)
	tick(90, false)
	testenv.Same(t, "the drain hears that the roster is full", s.full, 1)
	tick(90, false)
}

// TestCountUp counts goroutines in made-up counters of the runtime, and adds up their number over some ticks.
func TestCountUp(t *testing.T) {
	f := newFakes(t)
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
	all(20)
	testenv.Same(t, "goroutines, although fewer than none are left", s.count(), 0)
	all(100)
	testenv.Same(t, "goroutines", s.count(), 76)
	s.living = s.count()
	for _, tick := range []struct{ all, stalled, shift, area uint64 }{
		{104, 0, 0, 78_000}, // 76 and then 80 goroutines: 78 in the mean, for 1000 µs
		{100, 400_000, 100_000, 78_000 + 80*100 + 76*300 + 78*600},
		{100, 1_000_000, 1_000_000, 78_000 + 77_600 + 76_000},
	} {
		s.before, s.now, s.stalled, s.shift = s.now, s.now+1e6, tick.stalled, tick.shift
		all(tick.all)
		s.countUp()
		testenv.Prints(t, "the integral, and goroutines at last", fmt.Sprint(tick.area, tick.all-24), s.area, s.living)
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
		testenv.Same(t, "not seen", d.lack(), missing) // no look has found any of it
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
		testenv.Same(t, now, d.lack(), want)
	}
	for i := range gs {
		d.lacks.ended(&gs[i])
	}
	testenv.Prints(t, "goroutines that are left, and their time", "0 0s", d.lacks.living, d.lacks.last)
}
