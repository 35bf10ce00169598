package reader

import (
	"io"
	"iter"

	"github.com/gotach/profiler/tachyon"
)

// A Batch is a number of successive samples of a file, in which threads and stacks have
// numbers instead of ids and lists of frames. Programs that read large files need less time
// and memory with batches than with [Reader.Samples]: a stack is in memory once, and a
// thread takes about 40 bytes.
type Batch struct {
	Samples []BatchSample
	Threads []Thread // those whose first sample is in this batch, in the order of their numbers
	Stacks  []Stack  // all stacks of the file up to this batch, by number. They do not change any more.
}

// A BatchSample is a sample in a [Batch].
type BatchSample struct {
	Time   uint64 // µs
	Since  uint64 // µs since the thread's previous sample, modulo 2^64; since the file's start, if it is the first one
	Thread uint32 // numbers the pairs of thread and interpreter from 0, by their first samples
	Stack  uint32 // number of the stack
	Status tachyon.Status
	First  bool // the first sample of its thread
}

// Weight returns the time in µs for which a sample stands. No other code computes weights, so all
// views of a profile have the same sums.
//
// It is the time since the previous sample of the same thread and interpreter. Times wrap modulo
// 2^64. It is 0 if the clock went back. Of a thread's first sample it is what the metadata say
// ([tachyon.Goroutine.FirstWeight]), otherwise one interval of the header. It is not reduced, even
// if it begins before the start in the header. said is 0 if the metadata say nothing.
func (s *BatchSample) Weight(said, interval uint64) uint64 {
	switch {
	case !s.First:
		return uint64(max(0, int64(s.Since)))
	case said > 0:
		return said
	}
	return interval
}

// A Thread is a pair of thread and interpreter.
type Thread struct {
	ID          uint64
	Interpreter uint32
}

// A Stack is a frame on top of the stack of its caller. Number 0 is the stack without
// frames. Equal stacks of a file have equal numbers, and a caller's number is smaller.
type Stack struct {
	Caller uint32 // number of the stack below
	Frame  uint32 // index into Frames
	Depth  uint32 // number of frames
}

// batchSize is the number of samples in a batch: enough that passing it to another goroutine
// costs nothing, and few enough for the caches.
const batchSize = 2048

// Batches yields all samples in file order, in batches. get returns the batch to fill next; its
// contents are overwritten. The caller may pass used batches in turns to another goroutine. If get
// is nil, each batch is a new one. A time after latest, in µs, is an error; [tachyon.MaxTime] is
// what sums can take. An error comes with a nil batch and ends the iteration, as in
// [Reader.Samples].
func (r *Reader) Batches(get func() *Batch, latest uint64) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		d := r.newDecoder(latest)
		n := newNumbering(r.Size(), r.header.Threads, r.header.Threads)
		defer n.free()
		n.batches(get, yield, func() error { return d.read(n, true) })
	}
}

// releasing reads a mapped file from one end to the other. It lets the kernel take back the pages
// that were read, so that they do not count as memory of this process.
type releasing struct {
	r    *io.SectionReader
	file *Reader
	done int64 // bytes read
	from int64 // bytes released
}

// release does that with the pages between two offsets.
func (r *Reader) release(from, to int64) {
	if m, ok := r.src.(interface{ release(from, to int64) }); ok {
		m.release(from, to)
	}
}

// releaseEvery is the number of bytes after which pages are released.
const releaseEvery = 4 << 20

func (r *releasing) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	r.done += int64(n)
	if r.done-r.from >= releaseEvery || err != nil && r.done > r.from {
		r.file.release(tachyon.HeaderSize+r.from, tachyon.HeaderSize+r.done)
		r.from = r.done
	}
	return n, err
}
