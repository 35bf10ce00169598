//go:build linux && (amd64 || arm64)

package native

import (
	"math/rand/v2"
	"testing"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/cost"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// TestLives starts and ends goroutines just after ticks that look at all of them. Then each one's samples
// must stand for exactly the time that it lived, also if there are few visits.
func TestLives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFakes(t)
		defer unix.Munmap(f.memory)
		s := f.s
		const entries = 150
		allot(s, uint64(rapid.IntRange(6, 200).Draw(t, "quota")))
		s.stillAfter, s.moverAfter = 1<<62, 1<<62 // looks at still ones are rare
		f.add(entries)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rate := 1 + random.IntN(6)
		type life struct{ began, ended, from, until uint64 }
		lives := map[uint64]*life{}
		start := func(i uint64) {
			f.start(i)
			lives[f.goid] = &life{began: s.now}
			if mem.Load64(s.entry(i)+entryNext*8) == 0 {
				lives[f.goid].began = 0 // the entry was never alive: checks find it some ticks later
			}
		}
		for tick := range 400 {
			s.before, s.now = s.now, s.now+s.period
			s.write = s.head
			visitSome(s)
			for at := s.head; at < s.write; {
				w := s.words(at)
				switch head := mem.Load64(w); head & 0xff {
				case recStack:
					if l := lives[mem.Load64(w+headGoid*8)]; l.from == 0 {
						l.from = mem.Load64(w + headBefore*8)
					}
				case recGone:
					l := lives[mem.Load64(w+16)]
					l.until = mem.Load64(w + 24)
					if from := mem.Load64(w + 32); from != 0 {
						if l.from != 0 {
							t.Fatalf("a goroutine that a visit has recorded ends with a time of its beginning")
						}
						l.from = from
					}
				}
				at += mem.Load64(w) >> 8 & 0xffffff
			}
			s.head, s.tail = s.write, s.write
			if tick > 350 {
				continue // all that have ended are found
			}
			for range random.IntN(2 * rate) {
				i := random.Uint64N(entries)
				g := f.g(i)
				switch f.status(i) {
				case 6:
					start(i)
				case goruntime.GWaiting:
					if l := lives[mem.Load64(g+s.Off.GID)]; l.began < s.now {
						l.ended = s.now
						mem.Store32(g+s.Off.GStatus, 6)
						if random.IntN(2) == 0 {
							start(i) // in the same g, before the next tick
						}
					}
				}
			}
		}
		for goid, l := range lives {
			if l.began == 0 || l.ended == 0 {
				continue
			}
			if l.until-l.from != l.ended-l.began {
				t.Fatalf("goroutine %d lived from %d to %d, its samples stand for the time from %d to %d", goid, l.began, l.ended, l.from, l.until)
			}
		}
	})
}

// TestStall has a late tick. While the program ran, half of the delay counts for goroutines that have begun or
// ended since the tick before. While it did not run, they had not begun or ended yet.
func TestStall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFakes(t)
		defer unix.Munmap(f.memory)
		s := f.s
		late := uint64(rapid.IntRange(5e6, 5e9).Draw(t, "late"))
		s.before, s.now, s.late = s.now, s.now+s.period+late, late
		half := (late - s.period/2) / 2
		if stall(s); excess(s, s.before) != half {
			t.Fatalf("without a reading of the CPU time: %d ns, want %d", excess(s, s.before), half)
		}
		s.used = 1
		if stall(s); s.stalled != late-min(late, s.used-1) {
			t.Fatalf("a tick was late by %d ns, and the program ran for %d; stalled for %d", late, s.used, s.stalled)
		}
		s.used = 0
		before := cost.ProcessCPU()
		s.used = before
		stall(s)
		ran := min(late, s.used-before)
		// Of the time without the stall, the program ran for a period before it and for ran after it.
		want := float64(late-ran) * float64(ran) / float64(s.period+ran)
		if ran > s.period/2 {
			want += float64(ran-s.period/2) / 2
		}
		if got := float64(excess(s, s.before)); got < want*0.98-2000 || got > want*1.02+2000 {
			t.Fatalf("late by %d ns, ran for %d: a change comes after %.0f ns, want %.0f", late, ran, got, want)
		}
	})
}
