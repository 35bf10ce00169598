package locks

import (
	"slices"
	"sort"

	"github.com/gotach/profiler/internal/analyze"
)

// wakers know when waits ended and which goroutines may have ended them. A wait ends between the
// last sample of it and the next sample of the goroutine. Who has ended it has run meanwhile: it
// was running, or its own wait has ended too. A goroutine that goes on waiting was not it.
type wakers struct {
	s       *sweep
	numbers [][]int32 // by goroutine of the window: its stretches in order of time
	end     uint64    // of the window
	waits   map[waiterSite][][2]uint64
	pairs   map[pair]bool
}

// A waiterSite is a goroutine that waits at a site.
type waiterSite struct {
	waiter int32
	site   *siteSums
}

// A pair is a goroutine that waits at a site and one that may end such waits.
type pair struct {
	waiterSite
	by int32
}

// newWakers returns the wakers of a window.
func newWakers(s *sweep) *wakers {
	k := &wakers{s: s, numbers: make([][]int32, len(s.w.goroutines)), waits: map[waiterSite][][2]uint64{}, pairs: map[pair]bool{}}
	for i := range s.w.stretches.Len {
		x := s.w.stretches.At(i)
		k.numbers[x.goroutine] = append(k.numbers[x.goroutine], i)
		k.end = max(k.end, x.end)
	}
	return k
}

// wakeup is when a goroutine's present wait ends: after from and not after to. It reports false if
// the wait does not end in the window.
func (k *wakers) wakeup(goroutine int32) (from, to uint64, ok bool) {
	now := k.s.now[goroutine]
	if now == 0 {
		return 0, 0, false
	}
	list := k.numbers[goroutine]
	i, found := slices.BinarySearch(list, now-1)
	if !found {
		return 0, 0, false
	}
	from, to, _, ok = k.endOf(list, i)
	return from, to, ok
}

// endOf is wakeup for the wait that a stretch of a list is of. last is the wait's last stretch.
func (k *wakers) endOf(list []int32, i int) (from, to uint64, last int, ok bool) {
	x := k.at(list, i)
	for ; i+1 < len(list); i++ {
		next := k.at(list, i+1)
		if next.status != x.status || k.s.outOfRuntime(next.stack) != k.s.outOfRuntime(x.stack) || next.begin > x.end || next.again {
			break
		}
		x = next
	}
	from, to = x.end, x.end+k.slack()
	if i+1 < len(list) {
		if next := k.at(list, i+1); next.begin <= x.end {
			to = next.first
		}
		return from, to, i, true
	}
	return from, to, i, to < k.end
}

const (
	mostWaits  = 64 // ends of waits of a goroutine at a site that are looked at
	leastWaits = 12 // of which it is known who always runs when one ends
)

// always reports whether a goroutine ran whenever a wait of another one at a site ended, but mostly
// not in a time as long just before that.
func (k *wakers) always(waiter int32, site *siteSums, by int32) bool {
	p := pair{waiterSite{waiter, site}, by}
	known, ok := k.pairs[p]
	if ok {
		return known
	}
	ends, ok := k.waits[p.waiterSite]
	if !ok {
		ends = k.endsAt(p.waiterSite)
		k.waits[p.waiterSite] = ends
	}
	ran, before := 0, 0
	for _, e := range ends {
		if k.ran(by, e[0], e[1]) {
			ran++
		}
		if k.ran(by, e[0]-min(e[0], e[1]-e[0]), e[0]) {
			before++
		}
	}
	known = len(ends) >= leastWaits && ran*10 >= len(ends)*9 && before*10 <= len(ends)*6
	k.pairs[p] = known
	return known
}

// endsAt returns the ends of some of the waits of a goroutine at a site.
func (k *wakers) endsAt(of waiterSite) (ends [][2]uint64) {
	list := k.numbers[of.waiter]
	for i := 0; i < len(list) && len(ends) < mostWaits; i++ {
		if x := k.at(list, i); !analyze.Waits(x.status) || k.s.site(x.stack) != of.site {
			continue
		}
		from, to, last, ok := k.endOf(list, i)
		if i = last; ok {
			ends = append(ends, [2]uint64{from, to})
		}
	}
	return ends
}

// slack is the time in which a goroutine that has no more samples has left.
func (k *wakers) slack() uint64 { return 2 * k.s.tick }

func (k *wakers) at(list []int32, i int) *stretch { return k.s.w.stretches.At(list[i]) }

// first returns when the first stretch of a goroutine begins, which has one.
func (k *wakers) first(goroutine int32) uint64 { return k.at(k.numbers[goroutine], 0).begin }

// last returns the last stretch of a goroutine, which has one.
func (k *wakers) last(goroutine int32) *stretch {
	list := k.numbers[goroutine]
	return k.at(list, len(list)-1)
}

// goesOn reports whether a goroutine has a sample after a time, or then waits. One that runs then
// may be about to end.
func (k *wakers) goesOn(goroutine int32, at uint64) bool {
	x := k.last(goroutine)
	return x.end > at || x.end == at && analyze.Waits(x.status)
}

// ran reports whether a goroutine ran at some time after from and not after to, as far as samples
// can tell.
func (k *wakers) ran(goroutine int32, from, to uint64) bool {
	list := k.numbers[goroutine]
	next := sort.Search(len(list), func(i int) bool { return k.at(list, i).first > from })
	if next < len(list) && k.at(list, next).begin < to {
		return true
	}
	if next == 0 {
		return false
	}
	x := k.at(list, next-1)
	return !analyze.Waits(x.status) && x.end+k.slack() > from || x.end < to && x.end+k.slack() > from
}

// ended reports whether a goroutine ended then.
func (k *wakers) ended(goroutine int32, from, to uint64) bool {
	if len(k.numbers[goroutine]) == 0 {
		return false
	}
	x := k.last(goroutine)
	return x.end < to+k.slack() && x.end+k.slack() > from && x.end+k.slack() < k.end
}
