package writer

import (
	"math/bits"

	"github.com/gotach/profiler/internal/journal"
)

// Limits on the bytes of repeats that a thread may hold back. CPython allows each thread
// 16 KB. Here all threads share 64 times that evenly. The minimum keeps the overhead of a
// record's fixed bytes small.
const (
	maxPending   = 16384
	totalPending = 64 * maxPending
	minPending   = 128

	minPendingRoom = 32 // size of a thread's first buffer
	maxPair        = 11 // a delta of 64 bits and a status byte
)

// A thread is the encoder's state of one pair of thread and interpreter.
type thread struct {
	id       uint64
	interp   uint32
	live     bool
	recorded bool         // the file has a record of it
	repeats  uint32       // samples in pending
	next     *thread      // the thread whose sample came after this one's the last time
	time     uint64       // µs, time of its last sample
	stack    []uint32     // stack of its last sample, innermost first
	pending  []byte       // delta and status of its repeats since the last record
	slot     journal.Slot // memory of pending, if there is a journal
}

type threadKey struct {
	id     uint64
	interp uint32
}

// A threadSet finds threads by id.
type threadSet struct {
	byKey map[threadKey]*thread
	list  []*thread // in order of first appearance; a dropped one's place is that of the thread that has its memory
	free  []*thread // dropped threads
	last  *thread   // the result of the last call of get
	start uint64    // µs; the first delta of a thread counts from here
}

func (s *threadSet) init(start uint64) {
	s.byKey = make(map[threadKey]*thread)
	s.start = start
}

// get returns a thread's state. It adds the thread if it is new. Ticks sample the same
// threads in about the same order. So get first tries the thread that was next the last
// time, and then the map: with many threads a look-up in the map takes one or two cache
// misses.
func (s *threadSet) get(id uint64, interp uint32) *thread {
	last := s.last
	if last != nil {
		if last.id == id && last.interp == interp {
			return last
		}
		if n := last.next; n != nil && n.id == id && n.interp == interp && n.live {
			s.last = n
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
	s.last = t
	return t
}

// find returns a thread's state, or nil if the thread is unknown.
func (s *threadSet) find(id uint64, interp uint32) *thread { return s.byKey[threadKey{id, interp}] }

func (s *threadSet) add(id uint64, interp uint32) *thread {
	var t *thread
	if n := len(s.free); n > 0 {
		t, s.free = s.free[n-1], s.free[:n-1]
	} else {
		t = new(thread)
		s.list = append(s.list, t)
	}
	t.id, t.interp, t.live, t.time = id, interp, true, s.start
	s.byKey[threadKey{id, interp}] = t
	return t
}

// drop removes a thread and reuses its memory. Its repeats must have been flushed.
func (s *threadSet) drop(t *thread) {
	delete(s.byKey, threadKey{t.id, t.interp})
	*t = thread{stack: t.stack[:0], pending: t.pending[:0], slot: t.slot}
	s.free, s.last = append(s.free, t), nil
}

// all yields the threads in order of first appearance.
func (s *threadSet) all(yield func(*thread) bool) {
	for _, t := range s.list {
		if t.live && !yield(t) {
			return
		}
	}
}

// share returns how many bytes each thread may hold back. It is a power of two.
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
