//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// sleeper sleeps at one place, again and again, and counts how often.
//
//go:noinline
func sleeper(stop *atomic.Bool, times *atomic.Int64) {
	for ; !stop.Load(); times.Add(1) {
		time.Sleep(5 * time.Millisecond)
	}
}

// TestMoved has goroutines that wait again and again at one place, and others that wait for the whole session. Samples
// have Moved for new waits of the first ones, at most once for each, and never for the others. The integral of the
// number of goroutines is what so many can have, and samples and what was not seen add up to it.
func TestMoved(t *testing.T) {
	const stay, own = 50, 30 // own: at most, of the profiler, with those of its checks
	defer park(stay)()
	var times, moved, parked atomic.Int64
	var sum time.Duration
	known := map[uint64]bool{}
	r := newRecorder()
	r.keep = func(s *taken) bool {
		if !s.system && s.goroutine < tachyon.FirstPseudo {
			sum += s.weight
		}
		again := s.status&tachyon.Moved != 0
		if again && (!known[s.goroutine] || s.status&(tachyon.OnCPU|tachyon.HasGIL|tachyon.Unknown) != 0) {
			t.Errorf("a sample with %v has the status %b", names(s.stack), s.status)
		}
		known[s.goroutine] = true
		switch {
		case strings.Contains(s.stack[len(s.stack)-1].Func, ".park."):
			if parked.Add(1); again {
				t.Errorf("a goroutine that is parked for the whole session has moved: %v", names(s.stack))
			}
		case again && slices.ContainsFunc(names(s.stack), func(f string) bool { return strings.HasSuffix(f, ".sleeper") }):
			moved.Add(1)
		}
		return false
	}
	before, begun := runtime.NumGoroutine(), time.Now()
	_, stats := sessionWith(t, source.Config{Budget: 50, WaitFrames: true}, r, func() {
		var all sync.WaitGroup
		var stop atomic.Bool
		for range 5 {
			all.Go(func() { sleeper(&stop, &times) })
		}
		testenv.Await(func() bool { return moved.Load() >= 20 && parked.Load() >= stay })
		stop.Store(true)
		all.Wait()
	})
	if moved.Load() < 20 || parked.Load() < stay || moved.Load() > times.Load() {
		t.Errorf("%d samples begin a new one of %d sleeps; %d samples of parked goroutines", moved.Load(), times.Load(), parked.Load())
	}
	k := &r.lacks
	least, most := stay*(k.next-notSeenEvery-k.begin), time.Since(begun)*time.Duration(before+5+own)
	if sum += k.owned + stats.NotSeen; k.area < least || k.area > most || sum < k.area-k.area/1000 {
		t.Errorf("the integral is %v, want %v to %v; samples and what was not seen add up to %v", k.area, least, most, sum)
	}
}
