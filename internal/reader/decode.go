package reader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

const (
	chunkSize = 32 << 10 // bytes of sample data in the buffer; small, so that the stacks stay in the caches

	// padding is the number of zero bytes after the sample data in the buffer. With them
	// the start of a record can be decoded before its length is checked: 13 bytes of ids
	// and encoding, a byte of status and three varints.
	padding = 64

	maxVarint = 10 // bytes

	// maxEmpty is the number of REPEAT records without a sample that are accepted. No
	// writer makes such records, but CPython reads them. A compressed file of them could
	// keep a reader busy for minutes.
	maxEmpty = 1 << 16
)

// A decoder turns sample data into samples.
type decoder struct {
	r    *Reader
	src  io.Reader // sample data, decompressed
	left uint64    // samples that the header counts and that are not decoded yet

	latest    uint64 // later times are an error
	uncounted bool   // the counts in the header are only upper limits

	empty int // REPEAT records without a sample

	buf  []byte // buf[pos:end] is not decoded yet; zero bytes follow
	pos  int
	end  int
	base int64 // offset of buf in the sample data
	eof  bool  // src has no more data
	long bool  // a varint was longer than 64 bits
}

// newDecoder returns a decoder. Times after latest are an error.
func (r *Reader) newDecoder(latest uint64) *decoder {
	size := int64(chunkSize)
	if r.header.Compression == tachyon.CompressionNone {
		size = min(size, r.SampleBytes())
	}
	return &decoder{r: r, left: r.header.Samples, latest: latest, buf: make([]byte, size+padding)}
}

// read reads all samples of the file. It returns errStop when no more are wanted. If ahead is set,
// data is decompressed by a goroutine.
func (d *decoder) read(n *numbering, ahead bool) error {
	d.src = &releasing{r: io.NewSectionReader(d.r.src, tachyon.HeaderSize, d.r.SampleBytes()), file: d.r}
	if d.r.header.Compression == tachyon.CompressionZstd {
		z, err := newDecompressor(d.r, d.src)
		if err != nil {
			return err
		}
		defer z.Close()
		d.src = z
		if ahead {
			a := newReadAhead(z)
			defer a.Close()
			d.src = a
		}
	}
	return d.samples(n)
}

// errStop means that yield returned false.
var errStop = errors.New("stop")

// samples decodes all samples.
func (d *decoder) samples(n *numbering) error {
	if err := d.fill(); err != nil {
		return err
	}
	big := d.r.header.BigEndian
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
		id, interpreter := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:])
		if big {
			id, interpreter = binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:])
		}
		if d.end-d.pos < 13 {
			return d.cut()
		}
		if n.last >= len(n.threads) || n.threads[n.last].threadKey != (threadKey{id, interpreter}) {
			if err := n.find(id, interpreter, d.r.header.Start); err != nil {
				return d.errorAt(d.pos, "%w", err)
			}
		}
		th := &n.threads[n.last]
		encoding := b[12]
		start := d.pos
		d.pos += 13
		if encoding == wire.Repeat {
			if err := d.repeat(n, th); err != nil {
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
		if th.time += since; th.time > d.latest {
			return d.late(start, th.time)
		}
		status := tachyon.Status(d.buf[d.pos])
		d.pos++
		begins := th.begin()
		if err := d.stack(n, th, encoding); err != nil {
			return err
		}
		n.record(th)
		if !n.add(th, since, status, begins) {
			return errStop
		}
	}
}

// repeat decodes the rest of a REPEAT record.
func (d *decoder) repeat(n *numbering, th *numbered) error {
	count, err := d.repeats()
	if err != nil {
		return err
	}
	n.record(th)
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
		if th.time += since; th.time > d.latest {
			return d.late(d.pos, th.time)
		}
		if !n.add(th, since, status, th.begin()) {
			return errStop
		}
	}
	return nil
}

// stack decodes the stack of a FULL, SUFFIX or POP_PUSH record.
func (d *decoder) stack(n *numbering, th *numbered, encoding wire.Encoding) error {
	depth := int(n.stacks[th.stack].Depth)
	if n.lists != nil {
		depth = n.lists.of[n.last].depth()
	}
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
	if n.lists != nil {
		frames, err := n.room(&n.lists.of[n.last], keep, int(count))
		if err != nil {
			return d.errorAt(at, "%w", err)
		}
		return d.indices(frames)
	}
	stack := th.stack
	for ; depth > keep; depth-- {
		stack = n.stacks[stack].Caller
	}
	// Threads have the same lists of frames again and again.
	list := n.cache.cut(d.buf[d.pos:d.end], int(count), stack)
	if on := n.cache.find(&list); on != 0 {
		th.stack = on
		d.pos += list.size
		return nil
	}
	if int(count) > len(n.frames) {
		n.frames = make([]uint32, min(max(2*int(count), 256), maxDepth))
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
	n.cache.add(&list, stack)
	th.stack = stack
	return nil
}

// late returns the error of a sample at a time that is after tachyon.MaxTime.
func (d *decoder) late(pos int, us uint64) error {
	return d.bad(pos, "%w", wire.CheckTime("a sample's time", us))
}

// repeats decodes the number of samples of a REPEAT record.
func (d *decoder) repeats() (uint64, error) {
	start := d.pos
	n := d.uvarint()
	switch {
	case d.pos > d.end:
		return 0, d.cut()
	case n > d.left:
		return 0, d.errorAt(start, "record with %d repeats, but the header counts only %d more of its %d samples", n, d.left, d.r.header.Samples)
	case n == 0:
		if d.empty++; d.empty > maxEmpty {
			return 0, d.errorAt(start, "more than %d records without a sample", maxEmpty)
		}
	}
	d.left -= n
	return n, nil
}

// kept decodes how many outermost frames of a stack of depth frames a record keeps.
func (d *decoder) kept(encoding wire.Encoding, depth int) (int, error) {
	start := d.pos
	switch encoding {
	case wire.Suffix:
		shared := d.uvarint()
		if shared > uint64(depth) {
			return 0, d.bad(start, "SUFFIX record shares %d frames of a stack of %d", shared, depth)
		}
		return int(shared), nil
	case wire.PopPush:
		pop := d.uvarint()
		if pop > uint64(depth) {
			return 0, d.bad(start, "POP_PUSH record pops %d frames of a stack of %d", pop, depth)
		}
		return depth - int(pop), nil
	}
	return 0, nil
}

// fill moves the bytes that are not decoded yet to the start of the buffer and reads more
// data after them.
func (d *decoder) fill() error {
	n := copy(d.buf, d.buf[d.pos:d.end])
	d.base += int64(d.pos)
	d.pos, d.end = 0, n
	for !d.eof && d.end < len(d.buf)-padding {
		n, err := d.src.Read(d.buf[d.end : len(d.buf)-padding])
		d.end += n
		if err == io.EOF {
			d.eof = true
		} else if err != nil {
			return d.readError(err)
		}
	}
	clear(d.buf[d.end:])
	return nil
}

// finish compares the numbers of samples and threads with those in the header. It is called
// at the end of the data.
func (d *decoder) finish(threads int) error {
	h := &d.r.header
	if d.uncounted {
		return nil
	}
	if d.left > 0 {
		return d.errorAt(d.end, "the file has %d samples, but the header counts %d", h.Samples-d.left, h.Samples)
	}
	// CPython accepts a header that counts too many threads.
	if h.Layout == tachyon.Document && uint64(threads) != uint64(h.Threads) {
		return d.errorAt(d.end, "the file has %d threads, but the header counts %d", threads, h.Threads)
	}
	return nil
}

// cut returns the error of a truncated record.
func (d *decoder) cut() error {
	if d.long {
		return d.errorAt(min(d.pos, d.end), "%w", errLong)
	}
	return d.errorAt(d.end, "truncated record")
}

// bad returns an error about a number at pos. If the record is truncated, it returns the
// error of cut instead.
func (d *decoder) bad(pos int, format string, args ...any) error {
	if d.pos > d.end {
		return d.cut()
	}
	return d.errorAt(pos, format, args...)
}

// errorAt returns a FormatError for a position in the buffer.
func (d *decoder) errorAt(pos int, format string, args ...any) error {
	e := &FormatError{File: d.r.name, Offset: d.base + int64(pos), Err: fmt.Errorf(format, args...)}
	if d.r.header.Compression == tachyon.CompressionNone {
		e.Offset += tachyon.HeaderSize
	} else {
		e.Decompressed = true
	}
	return e
}

// readError adds the offset to an error of reading sample data, unless the error has one.
func (d *decoder) readError(err error) error {
	var format *FormatError
	if errors.As(err, &format) || errors.Is(err, os.ErrClosed) {
		return err
	}
	return d.r.ioError(tachyon.HeaderSize+d.base+int64(d.end), err)
}
