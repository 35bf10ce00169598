//go:build linux && (amd64 || arm64)

package native

import (
	"testing"

	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/mem"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// TestStays checks what a visit records of a goroutine that has moved: until when looks found it where it was,
// unless the latest look found already that it had moved.
func TestStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFakes(t)
		defer unix.Munmap(f.memory)
		s := f.s
		allot(s, uint64(rapid.IntRange(cost.FewestVisits<<16, 20<<16).Draw(t, "quota")))
		f.add(40)
		for i := range uint64(rapid.IntRange(1, 40).Draw(t, "goroutines")) {
			f.start(i)
		}
		// tick returns the time that recStay has for the first goroutine, 0 if there is none, and whether its
		// stack is recorded.
		tick := func() (until uint64, walked bool) {
			f.records(func(kind uint64, w uintptr) {
				switch {
				case kind == recStay && mem.Load64(w+8) == 0:
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
