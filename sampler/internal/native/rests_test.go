//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/cost"
	"pgregory.net/rapid"
)

// TestRests checks at which ages goroutines that do not move have records, in ticks of a millisecond. Those that wait for locks
// have one at each look, as far as the visits of a tick go.
func TestRests(t *testing.T) {
	const goroutines = 10
	f := startFakes(t, goroutines, 16)
	ages := make([][]uint64, goroutines)
	ticks := func(n int) (records int) {
		for range n {
			f.records(func(kind uint64, w uintptr) {
				if kind == recSame {
					i := mem.Load64(w + 8)
					ages[i] = append(ages[i], (f.s.now-mem.Load64(f.s.entry(i)+entryMoved*8))/1e6)
					records++
				}
			})
		}
		return records
	}
	ticks(4000)
	for i, got := range ages {
		beat := uint64(restBeat-i*restBeat/restPhases) / 1e6
		if want := []uint64{68, 135, 269, 537, beat, 1074, beat + 1074, 2148, beat + 2148}; !sameAges(got, want) {
			t.Errorf("goroutine %d has records at ages of %v ms, want %v", i, got, want)
		}
	}
	if n := ticks(5); n > goroutines {
		t.Errorf("%d records in five ticks", n)
	}
	f.s.waits.Elem = 1 // the wait reason 0
	testenv.Same(t, "records of goroutines that wait for a lock", ticks(5), 5*goroutines)
	allot(f.s, 3)
	if n := ticks(5); n < 5*3 || n > 5*3+goroutines/2 { // a few are due by their age
		t.Errorf("with three visits a tick they have %d records in five ticks", n)
	}
}

// sameAges reports whether two lists are the same but for differences of a tick or two, and for records that come together.
func sameAges(a, b []uint64) bool {
	near := func(x, y uint64) bool { return x <= y+2 && y <= x+2 }
	return slices.EqualFunc(slices.CompactFunc(slices.Clone(a), near), slices.CompactFunc(slices.Clone(b), near), near)
}

// swept returns the kinds of the records that a tick makes of each goroutine.
func (f *fakes) swept() map[uint64][]uint64 {
	all := map[uint64][]uint64{}
	f.records(func(kind uint64, w uintptr) {
		index := mem.Load64(w + 8)
		if kind == recStack {
			index = mem.Load64(w + headIndex*8)
		}
		all[index] = append(all[index], kind)
	})
	return all
}

// TestSweep checks that after lookOnce one tick records all goroutines, whatever circles they are in and whether they have moved,
// and that no tick follows if that is the last look. If the ring has no room, it must be a later tick, and one tick.
func TestSweep(t *testing.T) {
	const goroutines = 300
	f := startFakes(t, goroutines, 16)
	f.add(100)
	s := f.s
	for tick := range 3000 { // a third of them move now and then, a few have just begun
		for i := range uint64(goroutines / 3) {
			if tick%int(i+1) == 0 && tick < 2500 {
				f.move(i)
			}
		}
		f.swept()
	}
	for i := range uint64(20) {
		f.start(goroutines + i)
	}
	for range 3 {
		f.swept()
	}
	f.move(0)
	f.move(goroutines - 1)
	mem.Store32(f.g(1)+s.Off.GStatus, 6)
	mem.Store32(f.g(2)+s.Off.GStatus, goruntime.GRunning)
	f.move(3)
	mem.Store64(f.g(3)+s.Off.GM, 1)
	if s.moving.n == 0 || s.active.n == 0 || s.still.n == 0 {
		t.Fatalf("the circles have %d, %d and %d entries", s.moving.n, s.active.n, s.still.n)
	}
	s.sweeps++
	all := f.swept()
	for i := range uint64(goroutines + 20) {
		want := []uint64{recSame}
		switch {
		case i == 0, i == goroutines-1:
			want = []uint64{recUnmoved, recStack}
		case i == 1:
			want = []uint64{recGone}
		case i == 2:
			want = nil // the tick sends it a signal
		case i == 3:
			want = []uint64{recUnmoved} // it begins to park
		}
		testenv.SameList(t, fmt.Sprint("kinds of records of goroutine ", i), all[i], want)
	}
	if s.sweeping != s.sweeps || s.leave != 0 {
		t.Errorf("the sweep has not ended, or there are no more ticks: %d of %d, %d", s.sweeping, s.sweeps, s.leave)
	}
	f.check(t)
	if all := f.swept(); len(all) > 20 {
		t.Errorf("the tick after it records %d goroutines", len(all))
	}

	// Their stacks need more room than there is, so two ticks record them, and a third one all once more.
	for i := range uint64(goroutines) {
		f.move(i)
	}
	s.sweeps++
	s.ticks++
	s.tail -= ringWords - ringKept - sweepWords*s.goroutines
	first := len(f.swept())
	s.ticks++
	second := len(f.swept())
	if first == 0 || first > goroutines/2 || second < goroutines/2 || s.sweeping == s.sweeps {
		t.Errorf("the ticks record %d and %d goroutines; %d of %d sweeps", first, second, s.sweeping, s.sweeps)
	}
	s.ticks++
	if all := f.swept(); len(all) < goroutines-1 || s.sweeping != s.sweeps {
		t.Errorf("the tick after them records %d goroutines; %d of %d sweeps", len(all), s.sweeping, s.sweeps)
	}

	s.sweeps++
	s.ending = 1
	s.ticks++
	s.tail -= ringWords - ringKept - 100
	if all := f.swept(); len(all) > 20 || s.sweeping == s.sweeps {
		t.Errorf("without room in the ring a tick records %d goroutines", len(all))
	}
	s.ticks++
	if all := f.swept(); len(all) < goroutines-1 || s.sweeping != s.sweeps || s.leave != 1 {
		t.Errorf("the last tick records %d goroutines; %d of %d sweeps, leave %d", len(all), s.sweeping, s.sweeps, s.leave)
	}
}

// TestLives starts and ends goroutines just after ticks that look at all of them. Then each one's samples
// must stand for exactly the time that it lived, also if there are few visits.
func TestLives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFakes(t)
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
						testenv.Same(t, "beginning of a goroutine that a visit has not recorded", l.from, 0)
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
			testenv.Same(t, fmt.Sprint("time of the samples of goroutine ", goid), l.until-l.from, l.ended-l.began)
		}
	})
}

// TestStall has a late tick. While the program ran, half of the delay counts for goroutines that have begun or
// ended since the tick before. While it did not run, they had not begun or ended yet.
func TestStall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFakes(t)
		s := f.s
		late := uint64(rapid.IntRange(5e6, 5e9).Draw(t, "late"))
		s.before, s.now, s.late = s.now, s.now+s.period+late, late
		half := (late - s.period/2) / 2
		stall(s)
		testenv.Same(t, "without a reading of the CPU time", excess(s, s.before), half)
		s.used = 1
		stall(s)
		testenv.Same(t, "stalled", s.stalled, late-min(late, s.used-1))
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
