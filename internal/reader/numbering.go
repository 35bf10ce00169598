package reader

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/gotach/profiler/tachyon"
)

// A numbering numbers the threads and stacks of a file and fills batches.
type numbering struct {
	batch *Batch
	yield func() bool // passes on a full batch

	threads []numbered
	last    int                // number of the thread that was found last
	index   Numbers[threadKey] // the numbers of threads + 1
	budget  int64              // bytes that threads and stacks may still take
	limit   uint32

	stacks   []Stack
	latest   []pushed          // by stack: the stack on top of it that was pushed last
	children map[uint64]uint32 // the stacks by the caller's << 32 | frame
	cache    listCache
	frames   []uint32 // buffer
	lists    *lists   // if not nil, stacks have no numbers; these have them
}

// A threadKey tells the threads of a file apart.
type threadKey struct {
	id          uint64
	interpreter uint32
}

// A numbered thread is the decoder's state of a thread.
type numbered struct {
	threadKey
	stack uint32 // of its latest sample
	time  uint64 // µs, of its latest sample
}

// A pushed is a stack on top of another one; 0: there was none yet.
type pushed struct{ frame, stack uint32 }

const (
	// maxDepth is the depth of the deepest stack that is accepted, far deeper than those of
	// any profiler. It limits the memory that is allocated before a record's frames are read.
	maxDepth = 1 << 20

	// Threads and stacks may take stateBase bytes plus stateFactor times the file's size. A hundred
	// thousand waiting goroutines compress to about 5 bytes each and need 50 bytes each here. A
	// malicious file could need a thousand times more.
	stateBase   = 32 << 20
	stateFactor = 128

	numberedCost = 160 // bytes of a thread, if its id is alone in the index
	stackCost    = 64  // bytes of a stack, with its share of the map

	slabSize = 16 << 10 // frames
)

// numberings are used again, because large files have large tables.
var numberings = sync.Pool{New: func() any { return &numbering{children: map[uint64]uint32{}} }}

// newNumbering returns the state for a file of fileSize bytes. Its header counts expect threads.
// It reserves memory for at most one thread per 4 bytes of the file.
func newNumbering(fileSize int64, expect, limit uint32) *numbering {
	n := numberings.Get().(*numbering)
	count := int(min(int64(expect), fileSize/4))
	if cap(n.threads) < count {
		n.threads = make([]numbered, 0, count)
	}
	n.index.clear()
	clear(n.children)
	n.cache.clear()
	n.threads, n.last = n.threads[:0], 0
	n.stacks, n.latest = append([]Stack(nil), Stack{}), append(n.latest[:0], pushed{}) // batches keep the stacks
	n.budget = stateBase + stateFactor*min(fileSize, 1<<48)
	n.limit = limit
	return n
}

func (n *numbering) free() {
	n.batch, n.yield, n.stacks, n.lists = nil, nil, nil, nil
	numberings.Put(n)
}

// batches yields batches with the samples that decode adds; see Batches.
func (n *numbering) batches(get func() *Batch, yield func(*Batch, error) bool, decode func() error) {
	if get == nil {
		get = func() *Batch { return &Batch{} }
	}
	n.begin(get())
	n.yield = func() bool {
		b := n.batch
		b.Stacks = n.stacks[:len(n.stacks):len(n.stacks)]
		if !yield(b, nil) {
			return false
		}
		n.begin(get())
		return true
	}
	err := decode()
	if err == errStop || len(n.batch.Samples) > 0 && !n.yield() {
		return
	}
	if err != nil {
		yield(nil, err)
	}
}

// begin makes b the batch to fill.
func (n *numbering) begin(b *Batch) {
	if cap(b.Samples) < batchSize {
		b.Samples = make([]BatchSample, 0, batchSize)
	}
	b.Samples, b.Threads, b.Stacks = b.Samples[:0], b.Threads[:0], nil
	n.batch = b
}

// record begins the samples of a record, whose thread was found last and has its stack.
func (n *numbering) record(th *numbered) {
	if l := n.lists; l != nil {
		at := &l.of[n.last]
		l.out.Thread, l.out.Interpreter, l.out.Stack = th.id, th.interpreter, at.frames[at.top:]
	}
}

// add adds a sample of the thread that was found last. It returns false when no more is wanted.
func (n *numbering) add(th *numbered, since uint64, status tachyon.Status, first bool) bool {
	if l := n.lists; l != nil {
		l.out.Time, l.out.Status = th.time, status
		return l.yield(&l.out, nil)
	}
	b := n.batch
	b.Samples = append(b.Samples, BatchSample{
		Time: th.time, Since: since, Thread: uint32(n.last), Stack: th.stack, Status: status, First: first,
	})
	return len(b.Samples) < batchSize || n.yield()
}

// noStack is the stack of a thread before its first sample.
const noStack = math.MaxUint32

// begin returns true before the thread's first sample, and gives it the empty stack.
func (t *numbered) begin() bool {
	if t.stack != noStack {
		return false
	}
	t.stack = 0
	return true
}

// find sets n.last to the number of a thread. If the thread does not exist, find adds it with the
// time start, in µs.
func (n *numbering) find(id uint64, interpreter uint32, start uint64) error {
	key := threadKey{id, interpreter}
	// The next threads are usually those of the previous tick: profilers sample threads in about
	// the same order at each.
	for i, at := 0, n.last; i < min(near, len(n.threads)); i++ {
		if n.threads[at].threadKey == key {
			n.last = at
			return nil
		}
		if at++; at == len(n.threads) {
			at = 0
		}
	}
	number := n.index.Of(threadKey{id >> 4, interpreter}, id)
	if *number > 0 {
		n.last = int(*number - 1)
		return nil
	}
	if uint64(len(n.threads)) >= uint64(n.limit) {
		return fmt.Errorf("thread %d of interpreter %d: more threads than the %d in the header", id, interpreter, n.limit)
	}
	if err := n.spend(numberedCost); err != nil {
		return err
	}
	n.last = len(n.threads)
	n.threads = append(n.threads, numbered{threadKey: key, time: start, stack: noStack})
	*number = uint32(len(n.threads))
	if n.lists != nil {
		n.lists.of = append(n.lists.of, list{})
	} else {
		n.batch.Threads = append(n.batch.Threads, Thread{ID: id, Interpreter: interpreter})
	}
	return nil
}

// near is the number of threads from the last one on that find tries before it looks into the map.
const near = 4

// push returns the number of the stack with a frame on top of another stack.
func (n *numbering) push(stack, frame uint32) (uint32, error) {
	if l := n.latest[stack]; l.frame == frame && l.stack != 0 {
		return l.stack, nil
	}
	key := uint64(stack)<<32 | uint64(frame)
	on, ok := n.children[key]
	if !ok {
		if err := n.spend(stackCost); err != nil {
			return 0, err
		}
		on = uint32(len(n.stacks))
		if on == uint32(cap(n.stacks)) { // less garbage than append makes
			n.stacks, n.latest = slices.Grow(n.stacks, len(n.stacks)), slices.Grow(n.latest, len(n.stacks))
		}
		n.stacks = append(n.stacks, Stack{Caller: stack, Frame: frame, Depth: n.stacks[stack].Depth + 1})
		n.latest = append(n.latest, pushed{})
		n.children[key] = on
	}
	n.latest[stack] = pushed{frame, on}
	return on, nil
}

// checkDepth returns an error if a stack of keep frames and n more is too deep.
func checkDepth(keep int, n uint64) error {
	if n > maxDepth || keep+int(n) > maxDepth {
		return fmt.Errorf("a stack of more than %d frames, the limit", maxDepth)
	}
	return nil
}

// spend subtracts bytes from the budget.
func (n *numbering) spend(bytes int) error {
	if n.budget -= int64(bytes); n.budget < 0 {
		return fmt.Errorf("the stacks of %d threads need more memory than the limit for a file of this size", len(n.threads))
	}
	return nil
}
