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
		if err := r.list(&lists{plain: yield}); err != nil {
			yield(nil, err)
		}
	}
}

// A listedSample is a sample with what a batch says of it.
type listedSample struct {
	tachyon.Sample
	since  uint64
	thread uint32
	first  bool
}

// listed yields the samples of a stream.
func listed(s Stream) iter.Seq2[*listedSample, error] {
	if r, ok := s.(interface {
		each(yield func(*listedSample, error) bool)
	}); ok {
		return r.each
	}
	return func(yield func(*listedSample, error) bool) {
		n := newNumbering(math.MaxInt64, 0, math.MaxUint32)
		defer n.free()
		n.begin(&Batch{})
		start := s.Header().Start
		var out listedSample
		for x, err := range s.Samples() {
			if err == nil {
				err = n.find(x.Thread, x.Interpreter, start)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			th := &n.threads[n.last]
			out = listedSample{Sample: *x, since: x.Time - th.time, thread: uint32(n.last), first: th.begin()}
			th.time = x.Time
			if !yield(&out, nil) {
				return
			}
		}
	}
}

// each implements listed.
func (r *Reader) each(yield func(*listedSample, error) bool) {
	if err := r.list(&lists{yield: yield}); err != nil {
		yield(nil, err)
	}
}

// list passes all samples to l.
func (r *Reader) list(l *lists) error {
	n := newNumbering(r.Size(), r.header.Threads, r.header.Threads)
	defer n.free()
	n.lists = l
	if err := r.newDecoder(math.MaxUint64).read(n, false); err != errStop {
		return err
	}
	return nil
}

// lists are the stacks of threads as lists of frames.
type lists struct {
	yield func(*listedSample, error) bool
	plain func(*tachyon.Sample, error) bool // is called instead if it is not nil
	of    []list                            // by thread
	slab  []uint32                          // memory for the next ones
	out   listedSample
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
