package reader

import (
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/gotach/profiler/internal/prefetch"
)

const (
	// maxDepth is the depth of the deepest stack that is accepted, far deeper than those of
	// any profiler. It limits the memory that is allocated before a record's frames are read.
	maxDepth = 1 << 20

	// The state of all threads may take stateBase bytes plus stateFactor times the file's
	// size. A hundred thousand waiting goroutines compress to about 5 bytes each and need
	// 200 bytes each here. A malicious file could need a thousand times more.
	stateBase   = 32 << 20
	stateFactor = 128

	// threadCost is the size of a thread's state in bytes without its stack: the thread,
	// its share of the index, and the unused capacity of the list.
	threadCost = 96
)

// A thread is the decoder's state of one (thread, interpreter) pair.
type thread struct {
	id          uint64
	time        uint64   // µs, of the latest sample
	frames      []uint32 // frames[top:] is its latest stack, innermost first
	top         uint32
	interpreter uint32
}

func (t *thread) is(id uint64, interpreter uint32) bool {
	return t.id == id && t.interpreter == interpreter
}

func (t *thread) depth() int { return len(t.frames) - int(t.top) }

// threads finds a thread by its ids in constant time.
//
// Cache misses take most of that time. Profilers sample threads in about the same order at
// each tick, and list has that order. So find tries the threads after the last one first:
// the processor has already fetched them. The processor cannot predict where their stacks
// are, so fetch prefetches the stacks.
type threads struct {
	list   []thread
	last   int       // position in list of the thread that was found last
	index  []uint32  // a hash table of positions in list, plus one
	seed   [2]uint64 // random, so that nobody can make a file whose ids collide
	slab   []uint32  // memory for the next stacks
	budget int64     // bytes that the state may still take
	limit  uint32    // number of threads in the header
}

const (
	ahead    = 16       // number of threads after the last one that find tries; their stacks are prefetched
	slabSize = 16 << 10 // frames
)

// newThreads returns the state for a file of fileSize bytes whose header counts count
// threads. It reserves memory for at most one thread per 4 bytes of the file.
func newThreads(fileSize int64, count uint32) threads {
	expect := min(int64(count), fileSize/4)
	return threads{
		list:   make([]thread, 0, expect),
		index:  make([]uint32, 1<<max(4, bits.Len64(uint64(2*expect)))),
		seed:   [2]uint64{rand.Uint64(), rand.Uint64()},
		budget: stateBase + stateFactor*min(fileSize, 1<<48),
		limit:  count,
	}
}

// hash mixes an id with the seed. The low bits of the result are used.
func (t *threads) hash(id uint64, interpreter uint32) uint64 {
	hi, lo := bits.Mul64(id^t.seed[0], uint64(interpreter)^t.seed[1]|1)
	hi, lo = bits.Mul64(hi^lo, 0x9e3779b97f4a7c15)
	return hi ^ lo
}

// find returns the thread. If it does not exist, find adds it with the time start, in µs.
// The pointer is valid until the next call.
func (t *threads) find(id uint64, interpreter uint32, start uint64) (*thread, error) {
	for i, n := 0, t.last; i < min(ahead, len(t.list)); i++ {
		if n++; n == len(t.list) {
			n = 0
		}
		if th := &t.list[n]; th.is(id, interpreter) {
			t.fetch(n)
			t.last = n
			return th, nil
		}
	}
	mask := uint64(len(t.index) - 1)
	slot := t.hash(id, interpreter) & mask
	for ; t.index[slot] != 0; slot = (slot + 1) & mask {
		if n := int(t.index[slot] - 1); t.list[n].is(id, interpreter) {
			t.last = n
			return &t.list[n], nil
		}
	}
	if uint64(len(t.list)) >= uint64(t.limit) {
		return nil, fmt.Errorf("thread %d of interpreter %d: more threads than the %d in the header", id, interpreter, t.limit)
	}
	if err := t.spend(threadCost); err != nil {
		return nil, err
	}
	t.list = append(t.list, thread{id: id, interpreter: interpreter, time: start})
	t.last = len(t.list) - 1
	t.index[slot] = uint32(len(t.list))
	if 2*len(t.list) > len(t.index) {
		t.rehash()
	}
	return &t.list[t.last], nil
}

// fetch prefetches the stacks that may be next when n becomes the last thread. The stacks
// of the first ahead threads after the present last one have been prefetched before.
func (t *threads) fetch(n int) {
	for i := t.last + ahead + 1; i <= n+ahead && i < len(t.list); i++ {
		if th := &t.list[i]; int(th.top) < len(th.frames) {
			// Only around the innermost frame: a record replaces two or three frames.
			prefetch.Slice(th.frames[max(8, th.top)-8 : min(int(th.top)+8, len(th.frames))])
		}
	}
}

// rehash doubles the index.
func (t *threads) rehash() {
	t.index = make([]uint32, 2*len(t.index))
	mask := uint64(len(t.index) - 1)
	for i := range t.list {
		slot := t.hash(t.list[i].id, t.list[i].interpreter) & mask
		for t.index[slot] != 0 {
			slot = (slot + 1) & mask
		}
		t.index[slot] = uint32(i + 1)
	}
}

// push keeps the outermost keep frames of a thread's stack and returns room for n new
// inner frames.
func (t *threads) push(th *thread, keep int, n uint64) ([]uint32, error) {
	if err := checkDepth(keep, n); err != nil {
		return nil, err
	}
	depth := keep + int(n)
	if depth > len(th.frames) {
		// A first stack gets only a quarter more room, because many threads always wait in
		// one place. After that the room doubles.
		size := (max(depth+depth/4, 2*len(th.frames)) + 7) &^ 7
		if err := t.spend(4 * size); err != nil {
			return nil, err
		}
		frames := t.frames(size)
		copy(frames[size-keep:], th.frames[len(th.frames)-keep:])
		th.frames = frames
	}
	th.top = uint32(len(th.frames) - depth)
	return th.frames[th.top:][:n], nil
}

// checkDepth returns an error if a stack of keep frames and n more is too deep.
func checkDepth(keep int, n uint64) error {
	if n > maxDepth || keep+int(n) > maxDepth {
		return fmt.Errorf("a stack of more than %d frames, the limit", maxDepth)
	}
	return nil
}

// frames allocates n frames.
func (t *threads) frames(n int) []uint32 {
	if n > slabSize/8 {
		return make([]uint32, n)
	}
	if n > len(t.slab) {
		t.slab = make([]uint32, slabSize)
	}
	f := t.slab[:n:n]
	t.slab = t.slab[n:]
	return f
}

// spend subtracts bytes from the budget.
func (t *threads) spend(bytes int) error {
	if t.budget -= int64(bytes); t.budget < 0 {
		return fmt.Errorf("the stacks of %d threads need more memory than the limit for a file of this size", len(t.list))
	}
	return nil
}
