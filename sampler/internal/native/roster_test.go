//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/source"
)

// TestMaxTracked has more goroutines than maxTracked.
func TestMaxTracked(t *testing.T) {
	if !alone(t) {
		return // there are gs that the tests before have left
	}
	maxTracked = 500
	var free []func()
	parks := func(n int) func() { return func() { free = append(free, park(n)) } }
	parks(300)()
	t.Run("during the session only", func(t *testing.T) { testMaxTracked(t, 700, parks(1000)) })
	before := runtime.NumGoroutine()
	park(2000)() // the list has goroutines that have ended: they do not count
	testenv.Await(func() bool { return runtime.NumGoroutine() <= before })
	parks(3000)()
	t.Run("all the time", func(t *testing.T) { testMaxTracked(t, 3700, func() {}) })
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
	r := newRecorder()
	r.keep = func(s *taken) bool {
		if !all[s.goroutine] {
			all[s.goroutine] = true
			seen.Add(1)
		}
		for _, f := range s.stack {
			if strings.HasSuffix(f.Func, ".untracked") {
				running.Add(1)
			}
		}
		return false
	}
	var warnings []error
	_, counts := sessionWith(t, source.Config{WaitFrames: true, Warn: func(err error) { warnings = append(warnings, err) }}, r, func() {
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
	if n := seen.Load(); n < 400 || n > 600 || running.Load() < 50 {
		t.Errorf("samples of %d goroutines, %d samples of the running ones", n, running.Load())
	}
	if n := counts.GoroutinesUntracked; n < left || n > left+200 || len(warnings) != 1 {
		t.Errorf("%d untracked, want %d at least; warnings %v", n, left, warnings)
	}
}

// testRosterIsBounded reads a list with few living goroutines and many that have ended. Neither the roster nor the
// memory that refresh takes may follow the length of the list, and ticks may add nothing to a full roster.
func testRosterIsBounded(t *testing.T) {
	n := New()
	n.cfg, n.patience = source.Config{Rate: 100, Budget: 1, Start: time.Now()}, cost.NewPatience(cost.CpuOfThread(), false)
	l, err := goruntime.LayoutOf(n.version)
	testenv.OK(t, err)
	testenv.OK(t, mem.UnlessFault(func() error { return n.prepare(l) }))
	defer n.release()
	r := &roster{s: n.s, l: l, allgs: n.drain.roster.allgs, allp: n.drain.roster.allp}
	n.s.goroutines = 0
	defer r.free()
	allocated := testenv.Allocated(func() { err = r.refresh() })
	if most := uint64(maxTracked + checked); err != nil || r.taken < uint64(maxTracked) || r.taken > most || r.read < 20_000 || r.left != r.read-r.taken {
		t.Fatalf("%d of %d entries taken, %d left out: %v", r.taken, r.read, r.left, err)
	}
	if allocated > 120_000 {
		t.Errorf("refresh has allocated %d bytes", allocated)
	}
	for fake := uint64(1); err == nil; fake++ {
		err = r.include(fake)
	}
	if err != errFull || r.taken != uint64(2*maxTracked) {
		t.Errorf("%d entries: %v", r.taken, err)
	}
	if err := r.handOver(monotonicNow()); err != nil || r.s.adds != 0 {
		t.Errorf("ticks add entries to a full roster: %v", err)
	}
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
		if got := goruntime.OneStack(c.lo, c.hi); got != c.want {
			t.Errorf("%#x to %#x: %v", c.lo, c.hi, got)
		}
	}
}
