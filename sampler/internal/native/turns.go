//go:build linux && (amd64 || arm64)

package native

import (
	"math/bits"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/mem"
)

const (
	// A tick looks at so many movers, and at so many active entries, for each visit that the quota
	// allows. A look at a goroutine whose g is in the processor's caches takes some 10 ns, one at
	// another goroutine ten times as long or more.
	activeLooks = 32

	// Looks go around the still circle in stillTurn, with at least fewLooks at a tick, but they
	// take one part in stillLooksPart of the budget at most.
	stillTurn      = 100 * time.Millisecond
	fewLooks       = 64
	stillLooksPart = 4

	// A tick visits so many more new goroutines, for each visit that the quota allows.
	// The quota does not limit these: without them the time of short-lived goroutines would be
	// missing. The ticks become rarer instead.
	newVisits = 3

	// An entry that has not moved for so many periods, and for so many turns of the looks at the
	// still circle, is still. It has not to wait for longer than youngRests if it has never moved,
	// and a mover waits for moverRests at least, unless there are too many.
	stillPeriods, stillTurns = 20, 4
	youngRests, moverRests   = 100 * time.Millisecond, 2 * time.Second

	// restFirst is the age at which a rest has its first record, in ns, and 1<<restBeat the longest
	// time between two. Those of different entries come at 1<<restPhases different times. A record
	// costs about restCost ns, with the drain and the writer. If the records of that many rests
	// took more than one part in restsPart of the budget, the longest time is doubled, up to
	// mostDoubled times.
	restFirst, restBeat, restPhases  = 1 << 26, 30, 7
	restCost, restsPart, mostDoubled = 1000, 10, 5

	// longestVisits bounds the time for visits at a tick if ticks are rare.
	longestVisits = 20 * time.Millisecond
)

// allot sets the number of visits that a tick may make, and how long entries stay in the
// other circles until they are still.
func allot(s *shared, quota uint64) {
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.quota)), quota)
	turn := max(uint64(stillTurn), s.still.n*s.period/max(s.mostLooks, fewLooks))
	least := stillPeriods * s.period
	after, movers := max(least, uint64(youngRests)), max(least, stillTurns*turn, uint64(moverRests))
	if s.active.n > activeLooks*quota {
		after = least // there are more active ones than a tick can look at
	}
	if s.moving.n > activeLooks*quota {
		movers = least
	}
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.stillAfter)), after)
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.moverAfter)), movers)
}

// visitSome looks at goroutines, and visits as many of those that have moved as the quota allows
// for a tick, and new ones.
//
//go:nosplit
//go:norace
//go:nocheckptr
func visitSome(s *shared) {
	quota := mem.Load64(uintptr(unsafe.Pointer(&s.quota)))
	s.began = mem.Cycles()
	callSweep(s)
	callMovers(s, quota)
	callNew(s, quota-min(quota, s.visited), quota)
	callStill(s, quota)
}

var callTurns = visitSome

// visitMovers looks at movers, and visits up to quota of them. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func visitMovers(s *shared, quota uint64) {
	all := s.moving.n
	callLook(s, &s.moving, activeLooks*quota, quota)
	s.wanted += s.moved
	if s.passed < all {
		s.wanted += s.moved * (all - s.passed) / max(s.passed, 1) // so many more would be needed for all of them
	}
}

var callMovers = visitMovers

// visitNew visits new goroutines, and those that move for the first time. n is the number of visits
// that movers have left over of the quota. It may make more visits. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func visitNew(s *shared, n, quota uint64) {
	most := n + newVisits*quota
	joined := callJoin(s, most)
	callLook(s, &s.active, activeLooks*quota, most-min(most, joined))
	s.wanted += s.moved
	s.news += joined
}

var callNew = visitNew

// lookStill looks at still entries. It visits those that have moved, which become movers, and at
// the beginning of a session those that no visit has recorded yet. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func lookStill(s *shared, quota uint64) {
	n := min(s.still.n*((s.now-s.before)/1000)/uint64(stillTurn/1000), mem.LoadAcquire(uintptr(unsafe.Pointer(&s.mostLooks))))
	start, visiting := mem.Cycles(), s.visiting
	callLook(s, &s.still, max(n, fewLooks), quota)
	s.looking += mem.Cycles() - start - (s.visiting - visiting)
	s.looks += s.passed
	s.wanted += s.moved
}

var callStill = lookStill

// lookTurn looks at the next n entries of a circle that the tick has not visited, or fewer if that
// takes too long. It visits new goroutines and those that have moved, at most so many as most says.
// It sets s.visited to their number, s.moved to that of those that have moved, and s.passed to that
// of all looks. Among movers it ends at the first one that it may not visit, and the next tick
// begins with that one. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func lookTurn(s *shared, c *circle, n, most uint64) {
	s.visited, s.moved, s.passed = 0, 0, 0
	total := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.goroutines)))
	all := min(c.n, n)
	for left := all; left > 0; left-- {
		if c != &s.still { // most of the still ones have not moved: what looks read is enough of them
			fetchNext(s, c, left == all, total)
		}
		before := c.look
		index := mem.Load64(s.entry(before)+entryNext*8) - 1
		if index >= total {
			return // the entry is in no circle, which cannot be
		}
		entry := s.entry(index)
		if mem.Load64(entry+entryLooked*8) == s.now {
			c.look = index
			continue
		}
		if c == &s.still || c.n > orderSize {
			fetch(s, index+fetchAhead, total)
		}
		g := uintptr(mem.Load64(entry + entryG*8))
		find(s, c, entry, g)
		if s.was.wants && s.visited == most && c == &s.moving {
			return
		}
		if s.was.wants && s.visited < most {
			if !visitTimed(s, g, entry, index) {
				return // no room in the ring: the next tick begins with this entry
			}
			s.visited++
			if s.was.first {
				s.news++
			}
		} else {
			if !meet(s, entry, index, mem.Load64(g+s.Off.GID), s.was.lives) || s.was.rests && recordDue(s, g, entry, index, most) && !same(s, index, s.now) {
				return
			}
			mem.Store64(entry+entryLooked*8, s.now)
		}
		if s.was.wants && !s.was.first && s.was.moved {
			s.moved++
		}
		s.passed++
		c.look = index
		c.order[c.looks&(orderSize-1)] = uint32(index)
		c.looks++
		settle(s, c, before, index)
		if left&31 == 0 && mem.Cycles()-s.began > mem.Load64(uintptr(unsafe.Pointer(&s.visitLimit))) {
			return
		}
	}
}

var callLook = lookTurn

// beat returns how often the longest time between two records of a rest is doubled if n goroutines
// rest and the budget is allowed ns of CPU time per ns.
func beat(n uint64, allowed float64) uint64 {
	most := allowed * (1 << restBeat) / restsPart / restCost
	return min(uint64(bits.Len64(n/uint64(max(most, 1)))), mostDoubled)
}

// recordDue reports whether a goroutine that rests has a record at this look: at the age of
// restFirst, when its age doubles, and after the longest time between two. One that waits for a
// lock has a record at each look, which is one of the visits that the tick may make: who holds the
// lock is found from these.
//
//go:nosplit
//go:norace
//go:nocheckptr
func recordDue(s *shared, g, entry uintptr, index, visits uint64) bool {
	if s.visited < visits && s.waits.Elem>>(mem.Load8(g+s.Off.GWaitReason)&63)&1 != 0 {
		s.visited++
		return true
	}
	moved, looked := mem.Load64(entry+entryMoved*8), mem.Load64(entry+entryLooked*8)
	age, before := s.now-moved, looked-min(moved, looked)
	longest := restBeat + mem.Load64(uintptr(unsafe.Pointer(&s.beat)))
	phase := index & (1<<restPhases - 1) << (longest - restPhases) // or all those that have rested since Start had theirs at the same tick
	a, b := age/restFirst, before/restFirst
	return a^b > a&b || (age+phase)>>longest != (before+phase)>>longest // a^b > a&b: their highest bits differ
}

// sweepWords is the most words that sweep writes of a goroutine that rests, on average.
const sweepWords = 3

// sweepTries is the number of times that sweep tries to visit a goroutine.
const sweepTries = 4

// sweep records each goroutine of the roster after each call of lookOnce, a rest up to now too. It
// goes by the numbers of the entries, because these change their circles meanwhile. All are
// recorded at one tick. If there is not enough room for all their stacks, the next ticks go on, and
// then it begins anew: a rest takes sweepWords at most. Only of so many goroutines that the ring
// has no room for their rests, they are recorded at several ticks. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func sweep(s *shared) {
	asked := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.sweeps)))
	if asked == s.sweeping {
		return
	}
	if asked != s.sweptFor {
		s.sweptFor, s.sweepAt = asked, 0
	}
	total := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.goroutines)))
	one := sweepWords*total <= ringWords-ringKept
	if s.sweepAt == 0 {
		if one && s.write-mem.LoadAcquire(uintptr(unsafe.Pointer(&s.tail)))+sweepWords*total > ringWords-ringKept {
			return // until the drain has made room
		}
		s.sweepFrom = s.ticks
	}
	for ; s.sweepAt < total; s.sweepAt++ {
		fetch(s, s.sweepAt+fetchAhead, total)
		entry := s.entry(s.sweepAt)
		if mem.Load64(entry+entryNext*8) == 0 {
			continue
		}
		g := uintptr(mem.Load64(entry + entryG*8))
		// A visit fails while the goroutine parks, and if this thread loses its core meanwhile.
		for try := 0; try < sweepTries && mem.Load64(entry+entryLooked*8) != s.now; try++ {
			if !visitTimed(s, g, entry, s.sweepAt) {
				return
			}
		}
		if mem.Load64(entry+entryLooked*8) != s.now && !callUnmoved(s, entry, s.sweepAt) {
			return
		}
	}
	if one && s.sweepFrom != s.ticks {
		s.sweepAt = 0
		return
	}
	s.sweeping = asked
	if mem.LoadAcquire(uintptr(unsafe.Pointer(&s.ending))) != 0 {
		mem.StoreRelease(uintptr(unsafe.Pointer(&s.leave)), 1)
	}
}

var callSweep = sweep
