//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
)

// A circle is a circular list of roster entries. Ticks go around it: they look at one entry after
// the other. A look finds out whether the entry has a living goroutine, which one, and whether it
// has moved: whether it has run since its stack was recorded. A look is a few loads. If the
// goroutine is new or has moved, the tick visits it: it records the goroutine and walks its stack.
// There are three circles:
//
//   - Movers have moved lately, after their first visit. They do what the program does, so each
//     tick looks at all of them, as far as the budget allows.
//   - Active entries are those of young goroutines that have not moved since their first visit, and
//     of goroutines that have just ended. Each tick looks at all of them, as far as it can.
//   - The others are still. A turn around them takes stillTurn, or longer if there are so many that
//     it would cost too much.
//
// A goroutine that waits for ever needs its stack recorded once, a goroutine that serves requests
// at each tick. In a service most goroutines have waited for a long time and will go on to, and
// they must not take the time from those that move.
//
// A look that finds that a goroutine has not moved records nothing. When the goroutine has moved
// and is visited, the visit first records until when looks found it where it was (recSame), and
// when it has ended, that is recorded too (recGone). A rest that lasts has a record now and then
// all the same, for those who follow the session, see recordDue. The end of a session and of a
// window needs one of each goroutine, see sweep.
//
// The runtime reuses the g of a goroutine that has ended, the most recently ended first. Entries
// of goroutines that have just ended stay in the active circle. If there are too many, they are in
// no circle, because a program that once had a hundred thousand goroutines keeps as many gs. Each
// tick checks some of these, in turns, for being alive again (join).
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
// late when the program needs all cores, and rare while it is idle. Stalls of the whole program are
// left out, see stall.
//
// A goroutine that looks have found and that ends before a visit has no sample. Its time counts as
// not seen (drain.ended).

// keepDead is the number of dead entries that stay in the active circle, besides as many as
// there are living ones. A P keeps up to 64 dead gs for reuse (runtime.gfput).
const keepDead = 256

// find sets s.was before a look or a visit.
//
//go:nosplit
//go:norace
//go:nocheckptr
func find(s *shared, c *circle, entry, g uintptr) {
	status := mem.Load32(g+s.Off.GStatus) &^ goruntime.GScan
	s.was.lives = goruntime.Alive(status)
	s.was.mark = mem.Load64(entry+entryMark*8) &^ placeBits
	s.was.first = mem.Load64(g+s.Off.GID) != mem.Load64(entry+entryGoid*8) || c == &s.active && mem.Load64(entry+entryFrom*8) != 0
	s.was.rests = s.was.lives && !s.was.first && unmoved(s, g, entry, mem.Load64(g+s.Off.GWaitSince))
	s.was.wants = s.was.lives && !s.was.rests && status != goruntime.GRunning && status != goruntime.GCopying
	m := mark(s, g)
	s.was.moved = m == 0 || m != s.was.mark
}

// settle puts an entry into the right circle after a look or a visit. before is the index of the
// entry before it in its circle. s.was is what the look or visit found.
//
//go:nosplit
//go:norace
//go:nocheckptr
func settle(s *shared, c *circle, before, index uint64) {
	entry := s.entry(index)
	last, moved := mem.Load64(entry+entryMoved*8), uint64(0)
	to := c
	switch {
	case !s.was.lives:
		to = &s.active // the runtime reuses it soon
		if last == 0 && c.dead > keepDead+c.n-c.dead {
			to = nil
		}
	case s.was.first || last == 0:
		to, moved = &s.active, s.now
	default:
		moved = last
		after := uintptr(unsafe.Pointer(&s.stillAfter))
		if c == &s.moving {
			after = uintptr(unsafe.Pointer(&s.moverAfter))
		}
		if m := mark(s, uintptr(mem.Load64(entry+entryG*8))); m == 0 || m != s.was.mark {
			to, moved = &s.moving, s.now
		} else if s.now-moved > mem.Load64(after) {
			to = &s.still
		}
	}
	if to != c {
		callExit(s, c, before, index)
		if to != nil {
			callEnter(s, to, index, moved)
		} else {
			leaveOut(s, index)
		}
		return
	}
	mem.Store64(entry+entryMoved*8, moved)
	if (last == 0) != (moved == 0) {
		if moved == 0 {
			c.dead++
		} else {
			c.dead--
		}
	}
}

// enter adds an entry to a circle. It will be the last one of the present turn. moved is
// the time at which its goroutine moved last, 0 if it has ended. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func enter(s *shared, c *circle, index, moved uint64) {
	entry := s.entry(index)
	if c.n > 0 {
		last := s.entry(c.look)
		mem.Store64(entry+entryNext*8, mem.Load64(last+entryNext*8))
		mem.Store64(last+entryNext*8, index+1)
	} else {
		mem.Store64(entry+entryNext*8, index+1)
	}
	mem.Store64(entry+entryMoved*8, moved)
	takeIn(s, index)
	c.look = index
	c.n++
	if moved == 0 {
		c.dead++
	}
}

var callEnter = enter

// exit removes an entry from a circle. before is the index of the entry before it. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func exit(s *shared, c *circle, before, index uint64) {
	entry := s.entry(index)
	mem.Store64(s.entry(before)+entryNext*8, mem.Load64(entry+entryNext*8))
	mem.Store64(entry+entryNext*8, 0)
	if c.look == index {
		c.look = before
	}
	c.n--
	if mem.Load64(entry+entryMoved*8) == 0 {
		c.dead--
	}
}

var callExit = exit

// leaveOut notes that an entry is in no circle.
//
//go:nosplit
//go:norace
//go:nocheckptr
func leaveOut(s *shared, index uint64) {
	word, bit := s.outside+uintptr(index>>6*8), uint64(1)<<(index&63)
	if old := mem.Load64(word); old&bit == 0 {
		mem.Store64(word, old|bit)
		s.outs++
	}
}

// takeIn notes that an entry is in a circle.
//
//go:nosplit
//go:norace
//go:nocheckptr
func takeIn(s *shared, index uint64) {
	word, bit := s.outside+uintptr(index>>6*8), uint64(1)<<(index&63)
	if old := mem.Load64(word); old&bit != 0 {
		mem.Store64(word, old&^bit)
		s.outs--
	}
}

// Between two ticks the program uses the processor's caches, and waiting for memory is most of the
// cost of looks and visits. So it is prefetched.

const (
	// See fetchNext. A look reads lookBytes of the g, from its status on. A visit reads gBytes of
	// the g and mostly no more than stackBytes of the stack.
	fetchStages, fetchApart, lookBytes, gBytes, stackBytes = 4, 4, 48, 400, 1024

	// fetchAhead is the number of entries that looks at other entries prefetch ahead: neighbours in
	// the roster are mostly neighbours in their circle.
	fetchAhead = 8
)

// fetch prefetches what a look reads.
//
//go:nosplit
//go:norace
//go:nocheckptr
func fetch(s *shared, index, total uint64) {
	if index < total {
		mem.Prefetch(uintptr(mem.Load64(s.entry(index)+entryG*8))+s.Off.GStatus, lookBytes)
	}
}

// fetchNext prefetches what is read of entries further on in a circle: the entry, what a look
// reads, and of those that have moved what a visit reads, the stack last. Each of these tells where
// the next one is, so they are fetchApart looks apart. Which entry comes is known from the turn
// before. It is a hint: entries may have come and gone since.
//
//go:nosplit
//go:norace
//go:nocheckptr
func fetchNext(s *shared, c *circle, first bool, total uint64) {
	for stage := uint64(1); stage <= fetchStages && c.n > fetchStages*fetchApart && c.n <= orderSize; stage++ {
		last := (fetchStages + 1 - stage) * fetchApart
		d := last
		if first {
			d = 1
		}
		for ; d <= last; d++ {
			index := uint64(c.order[(c.looks+d-1-c.n)&(orderSize-1)])
			if index >= total {
				continue
			}
			entry := s.entry(index)
			if stage == 1 {
				mem.Prefetch(entry, 1)
				continue
			}
			g := uintptr(mem.Load64(entry + entryG*8))
			switch {
			case stage == 2:
				mem.Prefetch(g+s.Off.GStatus, lookBytes)
			case mem.Load64(entry+entryMark*8)&^placeBits == mark(s, g):
			case stage == 3:
				mem.Prefetch(g, gBytes)
			default:
				sp := uintptr(mem.Load64(g + s.Off.GSchedSP))
				mem.Prefetch(sp, min(uintptr(mem.Load64(g+s.Off.GStackHi))-sp, stackBytes))
			}
		}
	}
}

// Roster entries that are in no circle: new ones, and those whose goroutines ended long ago. Ticks
// check them, the new ones first, for being alive. Those that are not new are found by a bit each:
// where a hundred thousand goroutines wait, nearly all entries are in a circle.

const (
	// A tick checks one in checkOneIn of the entries in no circle, but at least minChecks and at
	// most maxChecks. A check is two loads.
	checkOneIn           = 128
	minChecks, maxChecks = 64, 1024

	// If ticks are rare, there are as many checks in a second: so many for each of these periods
	// since the tick before, in ns. Otherwise short-lived goroutines would be missed.
	checkEvery, mostTimesChecks = 1e6, 20

	// After a check that has found a living goroutine come moreChecks more, up to mostChecks.
	moreChecks, mostChecks = 32, 4096

	// mostBits is the number of words of bits that a tick reads at most.
	mostBits = 512
)

// join checks entries that are in no circle, the new ones first, and adds those that are alive to
// the active circle. It visits some of them, at most half of n, rounded up, and returns their
// number. While it finds some it goes on: many goroutines may have begun at once. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func join(s *shared, n uint64) (joined uint64) {
	total := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.goroutines)))
	checks := max(minChecks, min(s.outs/checkOneIn, maxChecks))
	checks *= max(1, min((s.now-s.before)/checkEvery, mostTimesChecks))
	checks = min(n, total-s.met) + min(s.outs, checks)
	for done, words := uint64(0), uint64(0); done < checks && words < mostBits; {
		index, ahead := s.met, uint64(1)
		if index >= total {
			if s.probe >= total {
				s.probe = 0
			}
			bits := mem.Load64(s.outside+uintptr(s.probe>>6*8)) >> (s.probe & 63)
			if bits == 0 {
				s.probe = s.probe | 63 + 1
				words++
				continue
			}
			for ; bits&1 == 0; bits >>= 1 {
				s.probe++
			}
			index, ahead = s.probe, bits>>fetchAhead&1
		}
		if ahead != 0 {
			fetch(s, index+fetchAhead, total)
		}
		done++
		entry := s.entry(index)
		if mem.Load64(entry+entryNext*8) == 0 {
			g := uintptr(mem.Load64(entry + entryG*8))
			if !goruntime.Alive(mem.Load32(g + s.Off.GStatus)) {
				meet(s, entry, index, 0, false)
				leaveOut(s, index)
			} else {
				if joined < (n+1)/2 {
					if !visitTimed(s, g, entry, index) {
						break
					}
					joined++
				} else {
					meet(s, entry, index, mem.Load64(g+s.Off.GID), true)
					mem.Store64(entry+entryLooked*8, s.now)
				}
				callEnter(s, &s.active, index, s.now)
				checks = min(checks+moreChecks, max(checks, mostChecks))
			}
		}
		if index == s.met {
			s.met++
		} else {
			s.probe++
		}
	}
	return joined
}

var callJoin = join
