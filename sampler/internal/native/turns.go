//go:build linux && (amd64 || arm64)

package native

import (
	"time"
	"unsafe"

	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/mem"
)

// A circle is a circular list of roster entries. Ticks go around it in two ways:
//
//   - A look finds out whether the entry has a living goroutine, which one, and whether it has
//     moved. A look is a few loads.
//   - A visit also records the goroutine, and walks its stack if it has moved.
//
// An entry has moved if its goroutine has run since its stack was recorded. There are three circles:
//
//   - Movers have moved lately, after their first visit. They do what the program does, so each tick visits
//     all of them, as far as it can.
//   - Active entries are those of young goroutines that have not moved since their first visit, and of
//     goroutines that have just ended. Each tick looks at all of them, as far as it can. It visits those that are
//     new, and those that have moved, which become movers.
//   - The others are still. Each tick looks at some of them. Those that have moved become movers. The visits
//     that movers and new goroutines leave over go to those that have not moved.
//
// A goroutine that waits for ever needs its stack recorded once, a goroutine that serves requests at each tick.
// In a service most goroutines have waited for a long time and will go on to, and they must not take the
// visits from those that move.
//
// A look that finds that a goroutine has not moved is worth as much as a visit. When the goroutine has moved and
// is visited, the visit first records until when looks found it where it was (recStay). So it does no
// harm if those that do not move are hardly ever visited.
//
// The runtime reuses the g of a goroutine that has ended, the most recently ended first. Entries
// of goroutines that have just ended stay in the active circle. If there are too many, they are in
// no circle, because a program that once had a hundred thousand goroutines keeps as many gs. Each
// tick checks some of these, in turns, for being alive again (outside.go).
//
// # How much time samples stand for
//
// The first sample of a goroutine stands for the time since the last look at its entry before,
// when the entry had no goroutine or another one. Its other samples stand for the time since the
// sample before. The last one is at the last look that found it alive. So a goroutine gets on
// average the time that it lived: too much at its beginning and too little at its end. A goroutine
// that lives for a fraction of a period is found by a fraction of the ticks, and its sample stands
// for the whole period.
//
// If the time between two looks is longer than a period, half of the excess is taken off the
// beginning and added to the end, see excess. Most goroutines live longer than that time, and it
// can be longer at their beginning than at their end, or depend on what the program does: ticks are
// late when the program needs all cores, and rare while it is idle. Stalls of the whole program are left out, see stall.
//
// A goroutine that looks have found and that ends before a visit has no sample. Its time counts as
// not seen (drain.ended).
type circle struct {
	n      uint64 // number of entries
	dead   uint64 // number of entries whose goroutine has ended
	cursor uint64 // index of the entry that was visited last
	look   uint64 // index of the entry that was looked at last
	passed uint64 // number of entries that visits have passed so far
}

const (
	// keepDead is the number of dead entries that stay in the active circle, besides as many as
	// there are living ones. A P keeps up to 64 dead gs for reuse (runtime.gfput).
	keepDead = 256

	// Looks at a tick for each visit that the quota allows, or, in the active circle, for each new
	// goroutine that the last ticks have found, up to cost.FewVisits of these. A look at a goroutine whose g
	// is in the processor's caches takes some 10 ns, one at another goroutine ten times as long or more.
	// A tick looks at fewLooks still ones at least.
	activeLooks, stillLooks, fewLooks = 32, 2, 64

	// A tick visits so many more new goroutines, for each visit that the quota allows or for each of
	// cost.FewVisits. The quota does not limit these: without them the time of short-lived goroutines would be
	// missing. The ticks become rarer instead.
	newVisits = 3

	// A visit to a goroutine that has not moved takes a tenth of the time of another visit, in tick and
	// drain. So sameVisits of these count as one.
	sameVisits = 8

	// Movers leave one in stillVisits of the visits to the still circle.
	stillVisits = 8

	// An entry that has not moved for so many periods, and for so many turns of the looks at the
	// still circle, is still. It has not to wait for longer than youngStays if it has never moved, and a mover
	// waits for moverStays at least, unless there are too many.
	stillPeriods, stillTurns = 20, 4
	youngStays, moverStays   = 100 * time.Millisecond, 2 * time.Second

	// A tick that is late by so many periods may follow a stall of the program, and so many ticks after
	// it read the CPU time of the process.
	stallPeriods, watchTicks = 3, 1000

	// birthTicks is the number of ticks over which the number of new goroutines is averaged.
	birthTicks = 16

	// longestVisits bounds the time for visits at a tick if ticks are rare.
	longestVisits = 20 * time.Millisecond

	// fetchAhead is the number of entries that a look or a visit prefetches ahead. With many
	// goroutines their gs are not in the processor's caches, and waiting for memory is most of the
	// cost. Neighbours in the roster are mostly neighbours in their circle.
	fetchAhead = 8
)

// allot sets the number of visits that a tick may make, as a 48.16 bit fixed point number.
func allot(s *shared, quota uint64) {
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.quota)), quota)
	whole := max(quota>>16, 1)
	turn := s.still.n / max(stillLooks*whole, fewLooks) * s.period
	least := stillPeriods * s.period
	after := max(least, min(stillTurns*turn, uint64(youngStays)))
	movers := max(least, stillTurns*turn, uint64(moverStays))
	if s.active.n > activeLooks*whole {
		after = least // there are more active ones than a tick can look at
	}
	if s.moving.n > sameVisits*whole {
		movers = least
	}
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.stillAfter)), after)
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.moverAfter)), movers)
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.same)), max(1, sameVisits*s.asked/max(s.period, 1)))
}

// limitVisits sets the longest time for visits at a tick: half of the mean time between two ticks, in ns,
// or half of longestVisits if ticks are rarer.
func (s *shared) limitVisits(period uint64) {
	const perMicrosecond = 40 // tornAfter is 40 µs
	limit := s.tornAfter / perMicrosecond * (min(period, uint64(longestVisits)) / 1000) / 2
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.visitLimit)), limit)
}

// visitSome visits as many goroutines as the quota allows for a tick, and looks at more of them:
// the movers first, then new ones and those that begin to move, then the others.
//
//go:nosplit
//go:norace
//go:nocheckptr
func visitSome(s *shared) {
	quota := mem.Load64(uintptr(unsafe.Pointer(&s.quota)))
	s.fraction += quota
	n := s.fraction >> 16
	s.fraction &= 0xffff
	if s.idle != 0 {
		n = min(n, idleVisits)
	}
	whole := max(quota>>16, 1)
	s.began = mem.Cycles()
	s.fresh = 0
	still := min(s.still.n, (n+stillVisits-1)/stillVisits)
	n -= still
	n -= callMovers(s, n, whole)
	// What new goroutines do not need is for those that have not moved.
	spare := n - min(n, s.births/birthTicks)
	n -= spare
	spare -= callYoung(s, spare)
	still += spare + callNew(s, n, whole)
	callTurn(s, &s.still, still, mem.Load64(uintptr(unsafe.Pointer(&s.same))))
	s.wanted += callLook(s, &s.still, max(stillLooks*whole, fewLooks), max(whole, cost.FewestVisits))
	s.news += s.fresh
	s.births += s.fresh - s.births/birthTicks
	s.visiting += mem.Cycles() - s.began
}

// visitMovers visits up to n movers and looks at others. It returns the number of visits. whole is the number of visits that
// the quota allows for a tick. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func visitMovers(s *shared, n, whole uint64) uint64 {
	c := &s.moving
	passed := c.passed
	visited := callTurn(s, c, n, 1)
	s.wanted += visited
	if passed = c.passed - passed; passed < c.n {
		s.wanted += visited * (c.n - passed) / max(passed, 1) // so many more would be needed for all of them
	}
	callLook(s, c, activeLooks*whole, 0)
	return min(n, visited)
}

// visitYoung visits up to n active goroutines that have not moved, and returns the number of visits. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func visitYoung(s *shared, n uint64) uint64 {
	living := s.active.n - s.active.dead
	if living == 0 {
		return 0
	}
	part := n
	if n < living {
		part = n / 2 // the still ones get the rest
	}
	return min(n, callTurn(s, &s.active, part, 1))
}

// visitNew visits new goroutines, and those that move for the first time. It is a stage, with the same parameters
// as visitMovers. It may make more visits. It returns how many are left.
//
//go:nosplit
//go:norace
//go:nocheckptr
func visitNew(s *shared, n, whole uint64) (left uint64) {
	most := n + newVisits*max(whole, cost.FewVisits)
	joined := callJoin(s, most)
	looks := activeLooks * max(whole, min(s.births/birthTicks, cost.FewVisits))
	found := callLook(s, &s.active, looks, most-min(most, joined))
	s.wanted += found - min(found, s.fresh)
	s.fresh += joined
	return n - min(n, found+joined)
}

// visitTurn visits the next n living goroutines of a circle, or fewer if there are fewer or if
// that takes too long. same is the part of a visit, in sameVisits, for which a goroutine counts that
// has not moved. visitTurn returns the number of visits. Entries known to be dead are left to looks. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func visitTurn(s *shared, c *circle, n, same uint64) uint64 {
	total := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.goroutines)))
	most, visited := n*sameVisits, uint64(0)
	for left := c.n; left > 0 && visited < most; left-- {
		before := c.cursor
		index := mem.Load64(s.entry(before)+entryNext*8) - 1
		if index >= total {
			break // the entry is in no circle, which cannot be
		}
		entry := s.entry(index)
		c.passed++
		if mem.Load64(entry+entryLooked*8) == s.now || mem.Load64(entry+entryMoved*8) == 0 {
			c.cursor = index
			continue
		}
		fetch(s, index+fetchAhead, total)
		g := uintptr(mem.Load64(entry + entryG*8))
		find(s, c, entry, g)
		from := s.write
		if !callVisit(s, g, entry, index) {
			c.passed--
			break // no room in the ring: the next tick begins with this entry
		}
		if s.write-from < headWords {
			visited += same
		} else {
			visited += sameVisits
		}
		c.cursor = index
		settle(s, c, before, index)
		if left&31 == 0 && mem.Cycles()-s.began > mem.Load64(uintptr(unsafe.Pointer(&s.visitLimit))) {
			break
		}
	}
	s.visits += visited
	return (visited + sameVisits - 1) / sameVisits
}

// lookTurn looks at the next n entries of a circle that the tick has not visited. It visits new
// goroutines and those that have moved, at most so many as visits says, and returns their number. Still
// ones that no visit has recorded yet are as old as the session, and wait for their turn. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func lookTurn(s *shared, c *circle, n, visits uint64) (visited uint64) {
	total := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.goroutines)))
	for left := min(c.n, n); left > 0; left-- {
		before := c.look
		index := mem.Load64(s.entry(before)+entryNext*8) - 1
		if index >= total {
			break // the entry is in no circle, which cannot be
		}
		entry := s.entry(index)
		c.look = index
		if mem.Load64(entry+entryLooked*8) == s.now {
			continue
		}
		fetch(s, index+fetchAhead, total)
		g := uintptr(mem.Load64(entry + entryG*8))
		find(s, c, entry, g)
		if visited < visits && wants(s, g) {
			if !callVisit(s, g, entry, index) {
				return visited
			}
			visited++
			if s.was.first {
				s.fresh++
			}
			s.visits += sameVisits
		} else {
			if !meet(s, entry, index, mem.Load64(g+s.Off.GID), s.was.lives) {
				return visited
			}
			mem.Store64(entry+entryLooked*8, s.now)
		}
		settle(s, c, before, index)
		if left&31 == 0 && mem.Cycles()-s.began > mem.Load64(uintptr(unsafe.Pointer(&s.visitLimit))) {
			break
		}
	}
	return visited
}

// fetch prefetches what a look reads.
//
//go:nosplit
//go:norace
//go:nocheckptr
func fetch(s *shared, index, total uint64) {
	if index < total {
		mem.Prefetch(uintptr(mem.Load64(s.entry(index)+entryG*8)) + s.Off.GStatus)
	}
}
