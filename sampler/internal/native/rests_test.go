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

// TestRests checks at which ages goroutines that do not move have records, in ticks of a millisecond: fewer if there are many. Those that wait for locks
// have one at each look, as far as the visits of a tick go.
func TestRests(t *testing.T) {
	const goroutines = 10
	f := startFakes(t, goroutines, 16)
	ages := make([][]uint64, goroutines)
	ticks := func(n int) (records int) {
		for range n {
			f.records(func(kind uint64, w uintptr) {
				if kind == restsNow {
					i := mem.Load64(w + 8)
					ages[i] = append(ages[i], (f.s.now-mem.Load64(f.s.entry(i)+entryMoved*8))/1e6)
					records++
				}
			})
		}
		return records
	}
	for f.s.beat = range uint64(2) {
		ticks(4000)
		for i, got := range ages {
			beat := uint64(1<<restBeat-i<<(restBeat-restPhases)) << f.s.beat / 1e6
			want := [][]uint64{{68, 135, 269, 537, beat, 1074, beat + 1074, 2148, beat + 2148}, {beat + 2148, 4295, beat + 4295}}[f.s.beat]
			testenv.FailIf(t, !sameAges(got, want), "goroutine %d has records at ages of %v ms, want %v", i, got, want)
			ages[i] = nil
		}
	}
	testenv.Prints(t, "how often the time is doubled", "0 1 3 5 0", beat(2000, 0.02), beat(3000, 0.02), beat(10_000, 0.02), beat(1e6, 0.02), beat(10_000, 0.2))
	testenv.Within(t, "records in five ticks", ticks(5), 0, goroutines)
	f.s.waits.Elem = 1 // the wait reason 0
	testenv.Same(t, "records of goroutines that wait for a lock", ticks(5), 5*goroutines)
	allot(f.s, 3)
	testenv.Within(t, "their records in five ticks with three visits each", ticks(5), 5*3, 5*3+goroutines/2) // a few are due by their age
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
	testenv.StopIf(t, s.moving.n == 0 || s.active.n == 0 || s.still.n == 0, "the circles have %d, %d and %d entries", s.moving.n, s.active.n, s.still.n)
	s.sweeps++
	all := f.swept()
	for i := range uint64(goroutines + 20) {
		want := []uint64{restsNow}
		switch {
		case i == 0, i == goroutines-1:
			want = []uint64{recSame, recStack}
		case i == 1:
			want = []uint64{recGone}
		case i == 2:
			want = nil // the tick sends it a signal
		case i == 3:
			want = []uint64{recSame} // it begins to park
		}
		testenv.SameList(t, fmt.Sprint("kinds of records of goroutine ", i), all[i], want)
	}
	testenv.Prints(t, "the sweep has ended, no more ticks", "true 0", s.sweeping == s.sweeps, s.leave)
	f.check(t)
	testenv.Within(t, "records of the tick after it", len(f.swept()), 0, 20)

	// Their stacks need more room than there is, so two ticks record them, and a third one all once more.
	for i := range uint64(goroutines) {
		f.move(i)
	}
	s.sweeps++
	s.ticks++
	s.tail -= ringWords - ringKept - sweepWords*s.goroutines
	next := func(what string, least, most int, ended bool) {
		t.Helper()
		testenv.Within(t, what, len(f.swept()), least, most)
		testenv.Same(t, what+": the sweep has ended", s.sweeping == s.sweeps, ended)
		s.ticks++
	}
	next("the first tick", 1, goroutines/2, false)
	next("the second tick", goroutines/2, mostFakes, false)
	next("the tick after them", goroutines-1, mostFakes, true)

	s.sweeps++
	s.ending = 1
	s.tail -= ringWords - ringKept - 100
	next("a tick without room in the ring", 0, 20, false)
	next("the last tick", goroutines-1, mostFakes, true)
	testenv.Same(t, "no more ticks", s.leave, 1)
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
		for tick := range 250 {
			f.records(func(kind uint64, w uintptr) {
				switch kind {
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
			})
			if tick > 200 {
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
		testenv.Within(t, fmt.Sprint("late by ", late, " ns, ran for ", ran), float64(excess(s, s.before)), want*0.98-2000, want*1.02+2000)
	})
}
