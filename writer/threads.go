package writer

import (
	"math/bits"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/prefetch"
)

// What a thread may hold back as repeats. CPython allows each thread 16 KB;
// all threads together get as much as 64 of CPython's, shared evenly, but none
// less than the least that keeps a record's fixed bytes cheap.
const (
	maxPending   = 16384
	totalPending = 64 * maxPending
	minPending   = 128

	minPendingRoom = 32 // what a thread begins with
	maxPair        = 11 // a delta of 64 bits and a status byte
)

// A thread is the state that the encoding of a (thread, interpreter) stands on.
type thread struct {
	id       uint64
	interp   uint32
	live     bool
	recorded bool         // the file has a record of it
	repeats  uint32       // samples in pending
	next     *thread      // the one whose sample came after this one's, last time
	time     uint64       // µs, of its last sample
	stack    []uint32     // of its last sample, innermost first
	pending  []byte       // delta and status of its repeats since the last record
	slot     journal.Slot // pending's memory, if there is a journal
}

type threadKey struct {
	id     uint64
	interp uint32
}

// A threadSet finds threads by id. It keeps them in pages, in order of first
// appearance, so that it never has to move them.
type threadSet struct {
	byKey map[threadKey]*thread
	pages [][]thread // each but the last full
	slab  []uint32   // for the stacks of the last page's threads to come
	free  []*thread  // dropped
	last  *thread    // the one that was asked for last
	ahead *thread    // the one that is lead steps after it, if all goes as last time
	lead  int
	start uint64 // µs; what the first delta counts from
}

const (
	threadPage = 64
	// Stacks up to this depth lie side by side, in the order in which ticks
	// usually come by, for the processor to fetch ahead; deeper ones are on their own.
	inlineDepth = 48

	maxLead   = 8                // threads whose state is fetched ahead
	manyPages = 512 / threadPage // fewer threads are in the caches anyway
)

func (s *threadSet) init(start uint64) {
	s.byKey = make(map[threadKey]*thread)
	s.start = start
}

// get returns a thread's state, new if need be. Ticks see the same threads in
// about the same order, so it tries the one that came next last time before it
// asks the map: with many threads the map is a cache miss or two.
func (s *threadSet) get(id uint64, interp uint32) *thread {
	last := s.last
	if last != nil {
		if last.id == id && last.interp == interp && last.live {
			return last
		}
		if n := last.next; n != nil && n.id == id && n.interp == interp && n.live {
			s.last = n
			if len(s.pages) > manyPages {
				s.fetch()
			}
			return n
		}
	}
	t := s.byKey[threadKey{id, interp}]
	if t == nil {
		t = s.add(id, interp)
	}
	if last != nil {
		last.next = t
	}
	s.last, s.ahead, s.lead = t, t, 0
	return t
}

// fetch has the stacks and repeats come of the threads that are next if all goes
// as last time.
func (s *threadSet) fetch() {
	if s.lead--; s.lead < 0 {
		s.ahead, s.lead = s.last, 0
	}
	for range 2 { // to gain a step on last
		a := s.ahead.next
		if a == nil || s.lead == maxLead {
			return
		}
		s.ahead = a
		s.lead++
		prefetch.Slice(a.stack)
		prefetch.Slice(a.pending[len(a.pending):]) // where the next repeat goes
	}
}

// find returns a thread's state or nil.
func (s *threadSet) find(id uint64, interp uint32) *thread { return s.byKey[threadKey{id, interp}] }

func (s *threadSet) add(id uint64, interp uint32) *thread {
	var t *thread
	if n := len(s.free); n > 0 {
		t, s.free = s.free[n-1], s.free[:n-1]
	} else {
		n := len(s.pages)
		if n == 0 || len(s.pages[n-1]) == threadPage {
			s.pages = append(s.pages, make([]thread, 0, threadPage))
			s.slab = make([]uint32, threadPage*inlineDepth)
			n++
		}
		page := &s.pages[n-1]
		*page = append(*page, thread{stack: s.slab[:0:inlineDepth]})
		s.slab = s.slab[inlineDepth:]
		t = &(*page)[len(*page)-1]
	}
	t.id, t.interp, t.live, t.time = id, interp, true, s.start
	s.byKey[threadKey{id, interp}] = t
	return t
}

// drop forgets a thread, whose repeats must have been flushed, and keeps its memory for another.
func (s *threadSet) drop(t *thread) {
	delete(s.byKey, threadKey{t.id, t.interp})
	*t = thread{stack: t.stack[:0], pending: t.pending[:0], slot: t.slot}
	s.free = append(s.free, t)
}

// all yields the threads in order of first appearance.
func (s *threadSet) all(yield func(*thread) bool) {
	for _, page := range s.pages {
		for i := range page {
			if page[i].live && !yield(&page[i]) {
				return
			}
		}
	}
}

// share is how many bytes each thread may hold back, a power of two.
func (s *threadSet) share() int {
	n := totalPending / max(1, len(s.byKey))
	if n >= maxPending {
		return maxPending
	}
	if n <= minPending {
		return minPending
	}
	return 1 << (bits.Len(uint(n)) - 1)
}

// commonSuffix returns how many of the outermost frames two stacks share.
func commonSuffix(a, b []uint32) int {
	n := min(len(a), len(b))
	a, b = a[len(a)-n:], b[len(b)-n:]
	for i := n - 1; i >= 0; i-- {
		if a[i] != b[i] {
			return n - 1 - i
		}
	}
	return n
}
