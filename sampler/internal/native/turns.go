//go:build linux && (amd64 || arm64)

package native

import "unsafe"

// Whose turn it is to be visited.
//
// A visit shows what is in an entry of the roster at one moment, and stands for the
// time since the entry was looked at before, even if another goroutine was there, or
// none. So what all goroutines of a kind did comes out right, however short they lived
// and however rarely they were met: a goroutine that lives for a tenth of the time
// between two looks is met by one look in ten, which then counts ten times.
//
// Goroutines that are young are visited more often than the rest. In a service most have
// waited for long and will go on to, and those that come and go at each request are few;
// among thousands of others they would be met too rarely to say much. There are two
// circles, each of which has half of the visits.
//
// The runtime keeps the g of a goroutine that has ended for one to come, the latest
// ones first. The latest stay among the young. The others are in no circle: a program that
// once had a hundred thousand has as many ever after. Ticks look at them in turns, too,
// but do no more than that as long as they find them dead.
type circle struct {
	n      uint64 // entries
	dead   uint64 // of these, whose goroutine has ended
	cursor uint64 // the entry that was looked at last
	passed uint64 // looks, ever
}

const (
	// A tick looks at a part of the roster's entries for one in no circle whose goroutine
	// lives, which is no more than two loads, but at no more and no fewer than so many.
	looksOf             = 128
	fewLooks, manyLooks = 64, 1024

	// keepDead is how many entries whose goroutine has ended stay among the young. A P
	// keeps up to 64 for itself (runtime.gfput).
	keepDead = 256

	// deadLooks is how many looks at the dead cost as much as a visit.
	deadLooks = 8

	// youth is how many turns of the old a goroutine is young for. If it then ends between
	// two turns, it is a small part of its life that is not seen.
	youth = 4

	// fetchAhead is how many entries ahead of the one that is visited the processor is asked
	// for what a visit reads of a g: with many goroutines that is not in the caches, and to
	// wait for it is most of a visit. Neighbours in the roster mostly follow one another in
	// their circle.
	fetchAhead = 8
)

// allot sets how many visits a tick may make, 48.16 bits.
func allot(s *shared, quota uint64) {
	storeRelease(uintptr(unsafe.Pointer(&s.quota)), quota)
	turn := s.old.n << 17 / max(quota, 1) * s.period // the old have half of the visits
	storeRelease(uintptr(unsafe.Pointer(&s.youth)), youth*turn)
}

// visitSome visits as many goroutines as the budget allows a tick: those that are new,
// which may take half of the visits, and others in turns.
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
	// What one circle leaves is the other's.
	young := max((n+1)/2, n-min(n, s.old.n))
	n -= min(n, visitTurn(s, &s.young, young, start))
	visitTurn(s, &s.old, n, start)
	s.visiting += cycles() - start
}

// visitTurn visits the next n goroutines of a circle, or fewer if they are fewer or take too
// long. It returns how many it has visited.
//
//go:nosplit
//go:norace
//go:nocheckptr
func visitTurn(s *shared, c *circle, n, start uint64) (visited uint64) {
	total := loadAcquire(uintptr(unsafe.Pointer(&s.goroutines)))
	spent := uint64(0)
	for left := c.n; left > 0 && spent < n*deadLooks; left-- {
		last := s.entry(c.cursor)
		index := load64(last+entryNext*8) - 1
		entry := s.entry(index)
		if load64(entry+entryLooked*8) == s.now {
			c.cursor = index // it came in at this tick, from the roster or the other circle
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
			store64(entry+entryLooked*8, s.now)
		} else if callVisit(s.base(), g, entry, uintptr(index)) == 0 {
			break // no room: it is the first of the next tick
		}
		c.passed++
		spent++
		if lives {
			spent += deadLooks - 1
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

// move puts an entry that has been looked at where it belongs. last is the one before it
// in its circle, goid who was there, lives whether somebody is.
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
		to, born = &s.young, s.now // another one
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

// enter makes an entry the last in turn of a circle.
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

// exit takes the entry after last out of its circle.
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

// join looks at entries that are in no circle, the new ones first. Those that
// live are visited and are young. It returns how many they are, at most half of n.
//
//go:nosplit
//go:norace
//go:nocheckptr
func join(s *shared, n uint64) (joined uint64) {
	total := loadAcquire(uintptr(unsafe.Pointer(&s.goroutines)))
	probes := min(total, max(fewLooks, min(total/looksOf, manyLooks)))
	for looks := min(n, total-s.met) + probes; looks > 0 && joined < (n+1)/2; looks-- {
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
				store64(entry+entryLooked*8, s.now)
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
