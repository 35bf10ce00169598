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

	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
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

// TestUnmoved checks what a visit records of a goroutine that has moved: until when looks found it where it was,
// unless the latest look found already that it had moved.
func TestUnmoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFakes(t)
		defer unix.Munmap(f.memory)
		s := f.s
		allot(s, uint64(rapid.IntRange(cost.FewVisits, 20).Draw(t, "quota")))
		f.add(40)
		for i := range uint64(rapid.IntRange(1, 40).Draw(t, "goroutines")) {
			f.start(i)
		}
		// tick returns the time that recUnmoved has for the first goroutine, 0 if there is none, and whether its
		// stack is recorded.
		tick := func() (until uint64, walked bool) {
			f.records(func(kind uint64, w uintptr) {
				switch {
				case kind == recUnmoved && mem.Load64(w+8) == 0:
					until = mem.Load64(w + 16)
				case kind == recStack && mem.Load64(w+headG*8) == uint64(f.g(0)):
					walked = true
				}
			})
			return until, walked
		}
		for range 60 {
			tick()
		}
		for range rapid.IntRange(1, 10).Draw(t, "still for") {
			if until, walked := tick(); until != 0 || walked {
				t.Fatalf("it has not moved, but a visit walks its stack: %v, and it stayed until %d", walked, until)
			}
		}
		looked := mem.Load64(s.entry(0) + entryLooked*8)
		f.move(0)
		for range 100 {
			until, walked := tick()
			if !walked {
				if until != 0 {
					t.Fatal("it stayed until a time, but its stack is not recorded")
				}
				looked = max(looked, mem.Load64(s.entry(0)+entryLooked*8))
				continue
			}
			if until != looked {
				t.Fatalf("it moved after the look at %d; the visit at %d says that it stayed until %d", looked, s.now, until)
			}
			f.move(0)
			if until, walked = tick(); !walked || until != 0 {
				t.Fatalf("it moved right after a visit: walked %v, stayed until %d", walked, until)
			}
			return
		}
		t.Fatal("no visit has found that it moved")
	})
}
