//go:build linux && (amd64 || arm64)

package native

import "unsafe"

// A circle is a circular list of roster entries that are visited in turns.
//
// A visit shows the goroutine in an entry at one moment. Its sample stands for the time since
// the entry's previous visit, even if the entry had another goroutine then, or none. So the
// sums over many similar goroutines are right, even if they live shortly and are visited
// rarely: a goroutine that lives for a tenth of the time between two visits is found by one
// visit in ten, and its sample then has ten times the weight.
//
// Young goroutines are visited more often than old ones. In a service most goroutines
// have waited for a long time and will go on to. The few that come and go with each
// request would be visited too rarely among thousands of others. So there are two
// circles, and each gets half of the visits.
//
// The runtime reuses the g of a goroutine that has ended, the most recently ended first. Some
// entries of ended goroutines, the most recent ones, stay in the circle of the young. The others
// are in no circle, because a program that once had a hundred thousand goroutines keeps as many
// gs. Each tick checks some of them, in turns, for being alive again.
type circle struct {
	n      uint64 // number of entries
	dead   uint64 // number of entries whose goroutine has ended
	cursor uint64 // index of the entry that was visited last
	passed uint64 // number of entries visited so far
}

const (
	// A tick checks one in checkOneIn of the roster's entries, but at least minChecks and at
	// most maxChecks. It looks for goroutines that are alive and in no circle. A check is two
	// loads.
	checkOneIn           = 128
	minChecks, maxChecks = 64, 1024

	// keepDead is the number of dead entries that stay in the circle of the young. A P keeps up
	// to 64 dead gs for reuse (runtime.gfput).
	keepDead = 256

	// deadChecks is the number of checks of dead entries that cost as much as one visit.
	deadChecks = 8

	// youth is the time for which a goroutine is young, in turns of the circle of the old. If
	// it ends later, between two turns, only a small part of its life is missed.
	youth = 4

	// fetchAhead is the number of entries that a visit prefetches ahead. With many goroutines
	// their gs are not in the processor's caches, and waiting for memory is most of the cost of
	// a visit. Neighbours in the roster are mostly neighbours in their circle.
	fetchAhead = 8
)

// allot sets the number of visits that a tick may make, as a 48.16 bit fixed point number.
func allot(s *shared, quota uint64) {
	storeRelease(uintptr(unsafe.Pointer(&s.quota)), quota)
	turn := s.old.n << 17 / max(quota, 1) * s.period // the old have half of the visits
	storeRelease(uintptr(unsafe.Pointer(&s.youth)), youth*turn)
}

// visitSome visits as many goroutines as the quota allows for a tick: first new ones, which
// may take half of the visits, then the others in turns.
//
//go:nosplit
//go:norace
//go:nocheckptr
func visitSome(s *shared) {
	s.fraction += load64(uintptr(unsafe.Pointer(&s.quota)))
	n := s.fraction >> 16
	s.fraction &= 0xffff
	if n == 0 {
		return
	}
	start := cycles()
	n -= join(s, n)
	// A circle gets the visits that the other one does not need.
	young := max((n+1)/2, n-min(n, s.old.n))
	n -= min(n, visitTurn(s, &s.young, young, start))
	visitTurn(s, &s.old, n, start)
	s.visiting += cycles() - start
}

// visitTurn visits the next n goroutines of a circle, or fewer if there are fewer or if that
// takes too long. It returns the number of visits.
//
//go:nosplit
//go:norace
//go:nocheckptr
func visitTurn(s *shared, c *circle, n, start uint64) (visited uint64) {
	total := loadAcquire(uintptr(unsafe.Pointer(&s.goroutines)))
	spent := uint64(0)
	for left := c.n; left > 0 && spent < n*deadChecks; left-- {
		last := s.entry(c.cursor)
		index := load64(last+entryNext*8) - 1
		entry := s.entry(index)
		if load64(entry+entryVisited*8) == s.now {
			c.cursor = index // it was visited at this tick, before it joined this circle
			continue
		}
		if ahead := index + fetchAhead; ahead < total {
			g := uintptr(load64(s.entry(ahead) + entryG*8))
			prefetch(g + s.off.gM)
			prefetch(g + s.off.gStatus)
		}
		g := uintptr(load64(entry + entryG*8))
		lives, goid := alive(load32(g+s.off.gStatus)), load64(entry+entryGoid*8)
		if !lives && goid == 0 {
			store64(entry+entryVisited*8, s.now)
		} else if callVisit(s.base(), g, entry, uintptr(index)) == 0 {
			break // no room in the ring: the next tick begins with this entry
		}
		c.passed++
		spent++
		if lives {
			spent += deadChecks - 1
			visited++
			s.visits++
		}
		move(s, c, last, index, goid, lives)
		if left&31 == 0 && cycles()-start > s.visitLimit {
			break
		}
	}
	return visited
}

// move puts an entry into the right circle after a visit. last is the entry before it in its
// circle, goid the id of its goroutine before the visit. lives says whether it has a living
// goroutine now.
//
//go:nosplit
//go:norace
//go:nocheckptr
func move(s *shared, c *circle, last uintptr, index, goid uint64, lives bool) {
	entry := s.entry(index)
	born, now := load64(entry+entryBorn*8), load64(entry+entryGoid*8)
	to := c
	switch {
	case !lives && born == 0:
		if c.dead > keepDead {
			to = nil
		}
	case !lives:
		to, born = &s.young, 0
	case born == 0 || now != goid && goid != 0 && now != 0:
		to, born = &s.young, s.now // another goroutine
	case c == &s.young && s.now-born > load64(uintptr(unsafe.Pointer(&s.youth))):
		to = &s.old
	}
	if to == c && (born == 0) == (load64(entry+entryBorn*8) == 0) {
		store64(entry+entryBorn*8, born)
		c.cursor = index
		return
	}
	exit(c, last, entry)
	if to != nil {
		enter(s, to, index, entry, born)
	}
}

// enter adds an entry to a circle. It will be the last one of the present turn.
//
//go:nosplit
//go:norace
//go:nocheckptr
func enter(s *shared, c *circle, index uint64, entry uintptr, born uint64) {
	next := index + 1
	if c.n > 0 {
		last := s.entry(c.cursor)
		next = load64(last + entryNext*8)
		store64(last+entryNext*8, index+1)
	}
	store64(entry+entryNext*8, next)
	store64(entry+entryBorn*8, born)
	c.cursor = index
	c.n++
	if born == 0 {
		c.dead++
	}
}

// exit removes an entry from its circle. last is the entry before it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func exit(c *circle, last, entry uintptr) {
	store64(last+entryNext*8, load64(entry+entryNext*8))
	store64(entry+entryNext*8, 0)
	c.n--
	if load64(entry+entryBorn*8) == 0 {
		c.dead--
	}
}

// join checks entries that are in no circle, the new ones first. It visits those that are alive
// and adds them to the circle of the young. It returns their number, at most half of n.
//
//go:nosplit
//go:norace
//go:nocheckptr
func join(s *shared, n uint64) (joined uint64) {
	total := loadAcquire(uintptr(unsafe.Pointer(&s.goroutines)))
	probes := min(total, max(minChecks, min(total/checkOneIn, maxChecks)))
	for checks := min(n, total-s.met) + probes; checks > 0 && joined < (n+1)/2; checks-- {
		index := s.met
		if index >= total {
			if s.probe >= total {
				s.probe = 0
			}
			index = s.probe
		}
		if ahead := index + fetchAhead; ahead < total {
			if e := s.entry(ahead); load64(e+entryNext*8) == 0 {
				prefetch(uintptr(load64(e+entryG*8)) + s.off.gStatus)
			}
		}
		entry := s.entry(index)
		if load64(entry+entryNext*8) == 0 {
			g := uintptr(load64(entry + entryG*8))
			if !alive(load32(g + s.off.gStatus)) {
				store64(entry+entryVisited*8, s.now)
			} else if callVisit(s.base(), g, entry, uintptr(index)) != 0 {
				enter(s, &s.young, index, entry, s.now)
				joined++
			} else {
				return joined
			}
		}
		if index == s.met {
			s.met++
		} else {
			s.probe++
		}
	}
	s.visits += joined
	return joined
}
