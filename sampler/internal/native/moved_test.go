//go:build linux && (amd64 || arm64)

package native

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// sleeper sleeps at one place, again and again, and returns how often.
//
//go:noinline
func sleeper(until time.Time) (times int) {
	for time.Now().Before(until) {
		time.Sleep(20 * time.Millisecond)
		times++
	}
	return times
}

// TestMoved has goroutines that wait again and again at one place, and others that wait for the whole
// session. Samples have Moved for each new wait of the first ones, and never for the others.
func TestMoved(t *testing.T) {
	defer park(50)()
	times := 0
	r, stats := session(t, source.Config{Budget: 50, WaitFrames: true}, func() {
		until := time.Now().Add(2 * time.Second)
		var all sync.WaitGroup
		var mu sync.Mutex
		for range 5 {
			all.Go(func() {
				n := sleeper(until)
				mu.Lock()
				defer mu.Unlock()
				times += n
			})
		}
		all.Wait()
	})
	moved, other, parked := 0, 0, 0
	last := map[uint64]*taken{}
	for i := range r.samples {
		s := &r.samples[i]
		before := last[s.goroutine]
		last[s.goroutine] = s
		if s.status&tachyon.Moved != 0 && (before == nil || s.status&(tachyon.OnCPU|tachyon.HasGIL|tachyon.Unknown) != 0) {
			t.Errorf("a sample with %v has the status %b", names(s.stack), s.status)
		}
		switch {
		case strings.Contains(s.stack[len(s.stack)-1].Func, ".park."):
			parked++
			if s.status&tachyon.Moved != 0 {
				t.Errorf("a goroutine that is parked for the whole session has moved: %v", names(s.stack))
			}
		case !slices.ContainsFunc(names(s.stack), func(f string) bool { return strings.HasSuffix(f, ".sleeper") }):
		case s.status&tachyon.Moved != 0:
			moved++
		case before != nil && s.stack[0].Func == "[sleep]" && before.stack[0].Func != "[sleep]":
			other++ // the sample before shows that this is a new sleep
		}
	}
	t.Logf("%d sleeps: %d samples with Moved, %d after another place; %d samples of parked goroutines; %+v", times, moved, other, parked, stats)
	if moved+other > times {
		t.Errorf("%d and %d samples begin a new one of %d sleeps", moved, other, times)
	}
	// A sleep without a tick, because the machine is busy, cannot be seen.
	if most := min(times, 5*int(stats.TicksReached)/2); moved+other < most/2 || moved < most/10 {
		t.Errorf("%d and %d samples begin a new one of %d sleeps, at %d ticks", moved, other, times, stats.TicksReached)
	}
	if parked < 50 {
		t.Errorf("%d samples of parked goroutines", parked)
	}
}
