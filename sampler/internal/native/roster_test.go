//go:build linux && (amd64 || arm64)

package native

import (
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
)

//go:noinline
func untracked(end time.Time) {
	for time.Now().Before(end) {
	}
}

// TestMaxTracked has more goroutines than maxTracked. Only a part of the waiting ones is sampled, but
// the running one is.
func TestMaxTracked(t *testing.T) {
	defer func(n int) { maxTracked = n }(maxTracked)
	maxTracked = 500
	end := park(600)
	defer park(3000)()
	end() // the beginning of the list has goroutines that have ended: they do not count
	var warnings []error
	done := make(chan bool)
	r, counts := session(t, source.Config{WaitFrames: true, Warn: func(err error) { warnings = append(warnings, err) }}, func() {
		for range 8 {
			go func() { untracked(time.Now().Add(300 * time.Millisecond)); done <- true }()
		}
		for range 8 {
			<-done
		}
	})
	var seen, running int
	all := map[uint64]bool{}
	for _, s := range r.samples {
		all[s.goroutine] = true
		for _, f := range s.stack {
			if strings.HasSuffix(f.Func, ".untracked") {
				running++
			}
		}
	}
	seen = len(all)
	if seen < 100 || seen > 1000 || running < 50 {
		t.Errorf("samples of %d goroutines, %d samples of the running one", seen, running)
	}
	if counts.GoroutinesUntracked < 2000 || len(warnings) != 1 {
		t.Errorf("%d untracked, warnings %v", counts.GoroutinesUntracked, warnings)
	}
}

// TestRosterIsBounded reads a list with few living goroutines and many that have ended. Neither the roster nor the
// memory that refresh takes may follow the length of the list, and ticks may add nothing to a full roster.
func TestRosterIsBounded(t *testing.T) {
	if !alone(t) {
		return // the tests before have left living goroutines
	}
	maxTracked = 500
	park(20_000)()
	defer park(300)()
	n := New()
	n.cfg, n.patience = source.Config{Rate: 100, Budget: 1, Start: time.Now()}, newPatience(time.Now(), false)
	l, err := layoutOf(n.version)
	if err != nil {
		t.Fatal(err)
	}
	if err := unlessFault(func() error { return n.prepare(l) }); err != nil {
		t.Fatal(err)
	}
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
		if got := oneStack(c.lo, c.hi); got != c.want {
			t.Errorf("%#x to %#x: %v", c.lo, c.hi, got)
		}
	}
}

// TestGrowsBeyondMaxTracked has more goroutines than maxTracked only during the session.
func TestGrowsBeyondMaxTracked(t *testing.T) {
	if !alone(t) {
		return // there are gs that the tests before have left
	}
	maxTracked = 500
	var running int
	r, counts := session(t, source.Config{WaitFrames: true}, func() {
		defer park(300)()
		time.Sleep(50 * time.Millisecond)
		defer park(1000)()
		done := make(chan bool)
		for range 4 {
			go func() { untracked(time.Now().Add(300 * time.Millisecond)); done <- true }()
		}
		for range 4 {
			<-done
		}
	})
	all := map[uint64]bool{}
	for _, s := range r.samples {
		all[s.goroutine] = true
		for _, f := range s.stack {
			if strings.HasSuffix(f.Func, ".untracked") {
				running++
			}
		}
	}
	if len(all) < 400 || len(all) > 600 || running < 50 {
		t.Errorf("samples of %d goroutines, %d samples of the running ones", len(all), running)
	}
	if counts.GoroutinesUntracked < 700 {
		t.Errorf("%d untracked", counts.GoroutinesUntracked)
	}
}
