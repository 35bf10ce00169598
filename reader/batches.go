package reader

import (
	"io"
	"iter"

	"github.com/gotach/profiler/internal/wire"
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
// is nil, each batch is a new one. An error comes with a nil batch and ends the iteration, as in
// [Reader.Samples].
func (r *Reader) Batches(get func() *Batch) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		d := &decoder{r: r, left: r.header.Samples, buf: make([]byte, min(chunkSize, r.dataSize())+padding)}
		n := newNumbering(r.Size(), r.header.Threads, r.header.Threads)
		defer n.free()
		d.batches(n, get, yield)
	}
}

// batches implements Batches.
func (d *decoder) batches(n *numbering, get func() *Batch, yield func(*Batch, error) bool) {
	region := &releasing{r: io.NewSectionReader(d.r.src, tachyon.HeaderSize, d.r.SampleBytes()), file: d.r}
	d.src = region
	if d.r.header.Compression == tachyon.CompressionZstd {
		z, err := newDecompressor(d.r, region)
		if err != nil {
			yield(nil, err)
			return
		}
		defer z.Close()
		ahead := newReadAhead(z)
		defer ahead.Close()
		d.src = ahead
	}
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
	err := d.number(n)
	if err == errStop {
		return
	}
	if len(n.batch.Samples) > 0 && !n.yield() {
		return
	}
	if err != nil {
		yield(nil, err)
	}
}

// number decodes all samples into batches.
func (d *decoder) number(n *numbering) error {
	if err := d.fill(); err != nil {
		return err
	}
	order := wire.Order(&d.r.header)
	for {
		if d.end-d.pos < padding && !d.eof {
			if err := d.fill(); err != nil {
				return err
			}
		}
		if d.pos == d.end {
			return d.finish(len(n.threads))
		}
		b := d.buf[d.pos : d.pos+padding]
		id, interpreter := order.Uint64(b), order.Uint32(b[8:])
		if d.end-d.pos < 13 {
			return d.cut()
		}
		if err := n.find(id, interpreter, d.r.header.Start); err != nil {
			return d.errorAt(d.pos, "%w", err)
		}
		th := &n.threads[n.last]
		encoding := b[12]
		start := d.pos
		d.pos += 13
		if encoding == wire.Repeat {
			if err := d.numberRepeats(n, th); err != nil {
				return err
			}
			continue
		}
		if encoding > wire.PopPush {
			return d.errorAt(start+12, "unknown encoding %d of a stack", encoding)
		}
		if d.left == 0 {
			return d.errorAt(start, "more samples than the %d in the header", d.r.header.Samples)
		}
		d.left--
		since := d.uvarint()
		if th.time += since; th.time > tachyon.MaxTime {
			return d.late(start, th.time)
		}
		status := tachyon.Status(d.buf[d.pos])
		d.pos++
		begins := th.begin()
		if err := d.numberStack(n, th, encoding); err != nil {
			return err
		}
		if !n.add(th, since, status, begins) {
			return errStop
		}
	}
}

// numberRepeats decodes the rest of a REPEAT record.
func (d *decoder) numberRepeats(n *numbering, th *numbered) error {
	count, err := d.repeats()
	if err != nil {
		return err
	}
	for ; count > 0; count-- {
		if d.end-d.pos < maxVarint+1 && !d.eof {
			if err := d.fill(); err != nil {
				return err
			}
		}
		since := d.uvarint()
		status := tachyon.Status(d.buf[d.pos])
		d.pos++
		if d.pos > d.end {
			return d.cut()
		}
		if th.time += since; th.time > tachyon.MaxTime {
			return d.late(d.pos, th.time)
		}
		if !n.add(th, since, status, th.begin()) {
			return errStop
		}
	}
	return nil
}

// numberStack decodes the stack of a FULL, SUFFIX or POP_PUSH record.
func (d *decoder) numberStack(n *numbering, th *numbered, encoding wire.Encoding) error {
	depth := int(n.stacks[th.stack].Depth)
	keep, err := d.kept(encoding, depth)
	if err != nil {
		return err
	}
	at := d.pos
	count := d.uvarint()
	if d.pos > d.end {
		return d.cut()
	}
	if err := checkDepth(keep, count); err != nil {
		return d.errorAt(at, "%w", err)
	}
	stack := th.stack
	for ; depth > keep; depth-- {
		stack = n.stacks[stack].Caller
	}
	// Threads have the same lists of frames again and again.
	list := n.lists.cut(d.buf[d.pos:d.end], int(count), stack)
	if on := n.lists.find(&list); on != 0 {
		th.stack = on
		d.pos += list.size
		return nil
	}
	if int(count) > len(n.frames) {
		n.frames = make([]uint32, max(2*int(count), 256))
	}
	frames := n.frames[:count]
	if err := d.indices(frames); err != nil {
		return err
	}
	for i := len(frames) - 1; i >= 0; i-- {
		if stack, err = n.push(stack, frames[i]); err != nil {
			return d.errorAt(at, "%w", err)
		}
	}
	n.lists.add(&list, stack)
	th.stack = stack
	return nil
}

// late returns the error of a sample at a time that is after tachyon.MaxTime.
func (d *decoder) late(pos int, us uint64) error {
	return d.bad(pos, "%w", wire.CheckTime("a sample's time", us))
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
