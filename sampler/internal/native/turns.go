//go:build linux && (amd64 || arm64)

package native

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A circle is a circular list of roster entries. Ticks go around it in two ways:
//
//   - A look finds out whether the entry has a living goroutine, which one, and whether it has
//     moved. A look is a few loads.
//   - A visit also records the goroutine, and walks its stack if it has moved.
//
// An entry has moved if its goroutine has run since the last look. Entries that have moved lately
// are in the active circle. Each tick looks at all of them, as far as it can, and visits as many
// as the quota allows. The others are in the still circle, which gets a quarter of the visits,
// and those that the active circle does not need. In a service most goroutines have waited for a
// long time and will go on to. They would take all the visits from those that move.
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
	// goroutine that the last ticks have found, up to fewVisits of these. A look at a goroutine whose g
	// is in the processor's caches takes some 10 ns, one at another goroutine ten times as long or more.
	activeLooks, stillLooks = 32, 2

	// A tick visits so many more new goroutines, for each visit that the quota allows or for each of
	// fewVisits. The budget does not limit these: without them the time of short-lived goroutines would be
	// missing. The next ticks then have fewer visits.
	newVisits = 3

	// A visit to a goroutine that has not moved takes a tenth of the time of another visit, in tick and
	// drain. So if ticks are rare, the still circle gets up to sameVisits of these for one.
	sameVisits = 8

	// An entry that has not moved for so many periods, and for so many turns of the looks at the
	// still circle, is still.
	stillPeriods, stillTurns = 20, 4

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
	storeRelease(uintptr(unsafe.Pointer(&s.quota)), quota)
	turn := s.still.n / (stillLooks * max(quota>>16, 1)) * s.period
	after := max(stillPeriods*s.period, stillTurns*turn)
	if s.active.n > activeLooks*max(quota>>16, 1) {
		after = stillPeriods * s.period // there are more active ones than a tick can look at
	}
	storeRelease(uintptr(unsafe.Pointer(&s.stillAfter)), after)
	storeRelease(uintptr(unsafe.Pointer(&s.same)), max(1, sameVisits*s.asked/max(s.period, 1)))
}

// limitVisits sets the longest time for visits at a tick: half of the mean time between two ticks, in ns,
// or half of longestVisits if ticks are rarer.
func (s *shared) limitVisits(period uint64) {
	const perMicrosecond = 40 // tornAfter is 40 µs
	limit := s.tornAfter / perMicrosecond * (min(period, uint64(longestVisits)) / 1000) / 2
	storeRelease(uintptr(unsafe.Pointer(&s.visitLimit)), limit)
}

// takeTurns is visitSome, called as a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func takeTurns(base, _, _, _ uintptr) uintptr {
	visitSome(at(base))
	return 0
}

// visitSome visits as many goroutines as the quota allows for a tick, and looks at more of them:
// at new entries first, then at the active circle, then at the still one.
//
//go:nosplit
//go:norace
//go:nocheckptr
func visitSome(s *shared) {
	quota := load64(uintptr(unsafe.Pointer(&s.quota)))
	s.fraction += quota
	n := s.fraction >> 16
	s.fraction &= 0xffff
	if s.idle != 0 {
		n = min(n, idleVisits)
	}
	whole := max(quota>>16, 1)
	looks, news := activeLooks*max(whole, min(s.births/birthTicks, fewVisits)), newVisits*max(whole, fewVisits)
	start := cycles()
	joined := join(s, n)
	n -= min(n, joined)
	// New goroutines must be visited soon: many do not live long. Some visits are kept for those
	// that looks will find.
	owed := min(s.owed, n/2)
	s.owed -= owed
	n -= owed
	still := min(s.still.n, max((n+3)/4, n-min(n, s.active.n-s.active.dead+s.fresh)))
	n -= still
	n -= visitTurn(s, &s.active, n-min(n/2, s.fresh), sameVisits, start)
	s.fresh = lookTurn(s, &s.active, looks, n+news, start)
	s.owed = min(s.owed+s.fresh-min(s.fresh, n), 8*whole)
	still += n - min(n, s.fresh)
	visitTurn(s, &s.still, still, load64(uintptr(unsafe.Pointer(&s.same))), start)
	lookTurn(s, &s.still, stillLooks*whole, whole, start)
	s.news += joined + s.fresh
	s.births += joined + s.fresh - s.births/birthTicks
	s.visiting += cycles() - start
}

// visitTurn visits the next n living goroutines of a circle, or fewer if there are fewer or if
// that takes too long. same is the part of a visit, in sameVisits, for which a goroutine counts that
// has not moved. visitTurn returns the number of visits. Entries known to be dead are left to looks.
//
//go:nosplit
//go:norace
//go:nocheckptr
func visitTurn(s *shared, c *circle, n, same, start uint64) uint64 {
	total := loadAcquire(uintptr(unsafe.Pointer(&s.goroutines)))
	most, visited := n*sameVisits, uint64(0)
	for left := c.n; left > 0 && visited < most; left-- {
		before := c.cursor
		index := load64(s.entry(before)+entryNext*8) - 1
		entry := s.entry(index)
		c.passed++
		if load64(entry+entryLooked*8) == s.now || load64(entry+entryMoved*8) == 0 {
			c.cursor = index
			continue
		}
		fetch(s, index+fetchAhead, total)
		g := uintptr(load64(entry + entryG*8))
		lives := alive(load32(g + s.off.gStatus))
		from := s.write
		if callVisit(s.base(), g, entry, uintptr(index)) == 0 {
			c.passed--
			break // no room in the ring: the next tick begins with this entry
		}
		if s.write-from < headWords {
			visited += same
		} else {
			visited += sameVisits
		}
		c.cursor = index
		settle(s, c, before, index, lives)
		if left&31 == 0 && cycles()-start > load64(uintptr(unsafe.Pointer(&s.visitLimit))) {
			break
		}
	}
	s.visits += visited
	return (visited + sameVisits - 1) / sameVisits
}

// lookTurn looks at the next n entries of a circle that the tick has not visited. It visits new
// goroutines, at most so many as visits says, and returns their number. Still ones that no visit has
// recorded yet are as old as the session, and wait for their turn.
//
//go:nosplit
//go:norace
//go:nocheckptr
func lookTurn(s *shared, c *circle, n, visits, start uint64) (fresh uint64) {
	total := loadAcquire(uintptr(unsafe.Pointer(&s.goroutines)))
	for left := min(c.n, n); left > 0; left-- {
		before := c.look
		index := load64(s.entry(before)+entryNext*8) - 1
		entry := s.entry(index)
		c.look = index
		if load64(entry+entryLooked*8) == s.now {
			continue
		}
		fetch(s, index+fetchAhead, total)
		g := uintptr(load64(entry + entryG*8))
		status, goid := load32(g+s.off.gStatus), load64(entry+entryGoid*8)
		lives := alive(status)
		if now := load64(g + s.off.gID); lives && fresh < visits &&
			(now != goid || c == &s.active && load64(entry+entryFrom*8) != 0 && status&^gScan != gRunning) {
			if callVisit(s.base(), g, entry, uintptr(index)) == 0 {
				return fresh
			}
			fresh++
			s.visits += sameVisits
		} else {
			if !meet(s, entry, index, now, lives) {
				return fresh
			}
			store64(entry+entryLooked*8, s.now)
		}
		settle(s, c, before, index, lives)
		if left&31 == 0 && cycles()-start > load64(uintptr(unsafe.Pointer(&s.visitLimit))) {
			break
		}
	}
	return fresh
}

// excess returns how long after the latest look at an entry its goroutine has changed: half of the
// time for which the look is longer ago than ticks that are on time explain. For the time for which
// the program did not run see stall.
//
//go:nosplit
//go:norace
//go:nocheckptr
func excess(s *shared, looked uint64) uint64 {
	after := s.shift
	if usual := looked + s.stalled + s.period*3/2; s.now > usual {
		after += (s.now - usual) / 2
	}
	return after
}

// stall notes for how long the program did not run at all before a late tick: its cgroup had used up
// its CPU quota, or other programs had the cores. No goroutine begins or ends in that time. Many
// begin and end right after it, before the tick thread gets a core. So the time since the last tick is
// not taken at half: shift is the part of the stall before a change, by the share of the
// program's running time that came after the stall.
//
// The stall is the tick's delay without the CPU time of the process. That is read only for some time
// after a tick that was very late.
//
//go:nosplit
//go:norace
//go:nocheckptr
func stall(s *shared) {
	s.stalled, s.shift = 0, 0
	if s.late > stallPeriods*s.period {
		s.watch = watchTicks
	}
	if s.watch == 0 {
		s.used = 0
		return
	}
	s.watch--
	before := s.used
	s.used = 0
	if rawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_PROCESS_CPUTIME_ID, uintptr(unsafe.Pointer(&s.cpuTime)), 0, 0, 0, 0) != 0 {
		return
	}
	s.used = s.cpuTime[0]*1e9 + s.cpuTime[1]
	between := s.now - s.before
	if before == 0 || s.late <= stallPeriods*s.period || s.late >= between {
		return
	}
	ran := min(s.late, s.used-before)
	s.stalled = s.late - ran
	s.shift = (s.stalled >> 10) * ran / ((between-s.stalled)>>10 + 1) // >>10 against overflow
}

// fetch prefetches what a look reads.
//
//go:nosplit
//go:norace
//go:nocheckptr
func fetch(s *shared, index, total uint64) {
	if index < total {
		prefetch(uintptr(load64(s.entry(index)+entryG*8)) + s.off.gStatus)
	}
}

// settle puts an entry into the right circle after a look or a visit. before is the index of the
// entry before it in its circle. lives says whether it has a living goroutine.
//
//go:nosplit
//go:norace
//go:nocheckptr
func settle(s *shared, c *circle, before, index uint64, lives bool) {
	entry := s.entry(index)
	was, moved := load64(entry+entryMoved*8), uint64(0)
	to := c
	if lives {
		m := mark(s, uintptr(load64(entry+entryG*8)))
		moved = was
		if was == 0 || m == 0 || m != load64(entry+entryMark*8) {
			moved = s.now
			store64(entry+entryMark*8, m)
			to = &s.active
		} else if s.now-moved > load64(uintptr(unsafe.Pointer(&s.stillAfter))) {
			to = &s.still
		}
	} else {
		to = &s.active // the runtime reuses it soon
		if was == 0 && c.dead > keepDead+c.n-c.dead {
			to = nil
		}
	}
	if to != c {
		exit(s, c, before, index)
		if to != nil {
			enter(s, to, index, moved)
		} else {
			leaveOut(s, index)
		}
		return
	}
	store64(entry+entryMoved*8, moved)
	if (was == 0) != (moved == 0) {
		if moved == 0 {
			c.dead++
		} else {
			c.dead--
		}
	}
}

// mark returns a number that changes when a goroutine moves, 0 if the goroutine is not parked.
// It is not exact: trackingSeq has 8 bits, and the number is the same again after the goroutine
// has stopped running 256 times. That is good enough for the choice of a circle.
//
//go:nosplit
//go:norace
//go:nocheckptr
func mark(s *shared, g uintptr) uint64 {
	switch load32(g+s.off.gStatus) &^ gScan {
	case gWaiting, gLeaked:
		return 1<<63 | load64(g+s.off.gID)<<16 | uint64(load8(g+s.off.gTrackingSeq))<<8 | uint64(load8(g+s.off.gWaitReason))
	}
	return 0
}

// enter adds an entry to a circle. It will be the last one of the present turn of visits. moved is
// the time at which its goroutine moved last, 0 if it has ended.
//
//go:nosplit
//go:norace
//go:nocheckptr
func enter(s *shared, c *circle, index, moved uint64) {
	entry := s.entry(index)
	if c.n > 0 {
		last := s.entry(c.cursor)
		store64(entry+entryNext*8, load64(last+entryNext*8))
		store64(last+entryNext*8, index+1)
	} else {
		store64(entry+entryNext*8, index+1)
		c.look = index
	}
	store64(entry+entryMoved*8, moved)
	takeIn(s, index)
	c.cursor = index
	c.n++
	if moved == 0 {
		c.dead++
	}
}

// exit removes an entry from its circle. before is the index of the entry before it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func exit(s *shared, c *circle, before, index uint64) {
	entry := s.entry(index)
	store64(s.entry(before)+entryNext*8, load64(entry+entryNext*8))
	store64(entry+entryNext*8, 0)
	if c.cursor == index {
		c.cursor = before
	}
	if c.look == index {
		c.look = before
	}
	c.n--
	if load64(entry+entryMoved*8) == 0 {
		c.dead--
	}
}
