//go:build linux && (amd64 || arm64)

package native

import (
	"testing"

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
		allot(s, uint64(rapid.IntRange(fewestVisits<<16, 20<<16).Draw(t, "quota")))
		f.add(40)
		for i := range uint64(rapid.IntRange(1, 40).Draw(t, "goroutines")) {
			f.start(i)
		}
		// tick returns the time that recStay has for the first goroutine, 0 if there is none, and whether its
		// stack is recorded.
		tick := func() (until uint64, walked bool) {
			s.before, s.now = s.now, s.now+s.period
			s.write = s.head
			visitSome(s)
			for at := s.head; at < s.write; {
				w := s.words(at)
				switch head := load64(w); {
				case head&0xff == recStay && load64(w+8) == 0:
					until = load64(w + 16)
				case head&0xff == recStack && load64(w+headG*8) == uint64(f.g(0)):
					walked = true
				}
				at += load64(w) >> 8 & 0xffffff
			}
			s.head, s.tail = s.write, s.write
			return until, walked
		}
		for range 60 {
			tick()
		}
		seq := f.g(0) + s.off.gTrackingSeq
		move := func() {
			store32(seq&^3, load32(seq&^3)+1<<(8*(seq&3)))
			store64(f.g(0)+s.off.gWaitSince, 0)
		}
		for range rapid.IntRange(1, 10).Draw(t, "still for") {
			if until, walked := tick(); until != 0 || walked {
				t.Fatalf("it has not moved, but a visit walks its stack: %v, and it stayed until %d", walked, until)
			}
		}
		looked := load64(s.entry(0) + entryLooked*8)
		move()
		for range 100 {
			until, walked := tick()
			if !walked {
				if until != 0 {
					t.Fatal("it stayed until a time, but its stack is not recorded")
				}
				looked = max(looked, load64(s.entry(0)+entryLooked*8))
				continue
			}
			if until != looked {
				t.Fatalf("it moved after the look at %d; the visit at %d says that it stayed until %d", looked, s.now, until)
			}
			move()
			if until, walked = tick(); !walked || until != 0 {
				t.Fatalf("it moved right after a visit: walked %v, stayed until %d", walked, until)
			}
			return
		}
		t.Fatal("no visit has found that it moved")
	})
}
