package reader

import (
	"iter"
	"math"

	"github.com/gotach/profiler/tachyon"
)

// Samples yields all samples in file order. The samples of one thread are in time order;
// the samples of different threads are not. The Reader owns the sample and its stack; they
// are valid until the next iteration. An error comes with a nil sample and ends the
// iteration. It is a [*FormatError] if the file is damaged.
//
// Each range over the result starts from the beginning.
func (r *Reader) Samples() iter.Seq2[*tachyon.Sample, error] {
	return func(yield func(*tachyon.Sample, error) bool) {
		n := newNumbering(r.Size(), r.header.Threads, r.header.Threads)
		defer n.free()
		n.lists = &lists{yield: yield}
		if err := r.newDecoder(math.MaxUint64).read(n, false); err != nil && err != errStop {
			yield(nil, err)
		}
	}
}

// lists are the stacks of threads as lists of frames.
type lists struct {
	yield func(*tachyon.Sample, error) bool
	of    []list   // by thread
	slab  []uint32 // memory for the next ones
	out   tachyon.Sample
}

// A list is the latest stack of a thread: frames[top:], innermost first.
type list struct {
	frames []uint32
	top    uint32
}

func (l *list) depth() int { return len(l.frames) - int(l.top) }

// room keeps the outermost keep frames of a thread's stack and returns room for count new
// inner frames.
func (n *numbering) room(th *list, keep, count int) ([]uint32, error) {
	depth := keep + count
	if depth > len(th.frames) {
		// A first stack gets only a quarter more room, because many threads always wait in
		// one place. After that the room doubles.
		size := (max(depth+depth/4, 2*len(th.frames)) + 7) &^ 7
		if err := n.spend(4 * size); err != nil {
			return nil, err
		}
		frames := n.lists.frames(size)
		copy(frames[size-keep:], th.frames[len(th.frames)-keep:])
		th.frames = frames
	}
	th.top = uint32(len(th.frames) - depth)
	return th.frames[th.top:][:count], nil
}

// frames allocates n frames.
func (l *lists) frames(n int) []uint32 {
	if n > slabSize/8 {
		return make([]uint32, n)
	}
	if n > len(l.slab) {
		l.slab = make([]uint32, slabSize)
	}
	f := l.slab[:n:n]
	l.slab = l.slab[n:]
	return f
}
