package reader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
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

// Samples yields all samples in file order. The samples of one thread are in time order;
// the samples of different threads are not. The Reader owns the sample and its stack; they
// are valid until the next iteration. An error comes with a nil sample and ends the
// iteration. It is a [*FormatError] if the file is damaged.
//
// Each range over the result starts from the beginning.
func (r *Reader) Samples() iter.Seq2[*tachyon.Sample, error] {
	return func(yield func(*tachyon.Sample, error) bool) { r.newDecoder().all()(yield) }
}

func (r *Reader) newDecoder() *decoder {
	return &decoder{
		r:       r,
		threads: newThreads(r.Size(), r.header.Threads),
		left:    r.header.Samples,
		buf:     make([]byte, min(chunkSize, r.dataSize())+padding),
	}
}

// all implements Samples. It can be used once.
func (d *decoder) all() iter.Seq2[*tachyon.Sample, error] {
	return func(yield func(*tachyon.Sample, error) bool) {
		r := d.r
		region := io.NewSectionReader(r.src, tachyon.HeaderSize, r.SampleBytes())
		if r.header.Compression == tachyon.CompressionZstd {
			z, err := newDecompressor(r, region)
			if err != nil {
				yield(nil, err)
				return
			}
			defer z.Close()
			d.src = z
		} else {
			d.src = region
		}
		if err := d.run(yield); err != nil {
			yield(nil, err)
		}
	}
}

// dataSize returns the size of the decompressed sample data in bytes, or chunkSize if it
// is unknown.
func (r *Reader) dataSize() int64 {
	if r.header.Compression == tachyon.CompressionNone {
		return r.SampleBytes()
	}
	return chunkSize
}

// A decoder turns sample data into samples.
type decoder struct {
	r       *Reader
	src     io.Reader // sample data, decompressed
	threads threads
	left    uint64 // samples that the header counts and that are not decoded yet

	uncounted bool // the counts in the header are only upper limits

	empty int // REPEAT records without a sample

	buf  []byte // buf[pos:end] is not decoded yet; zero bytes follow
	pos  int
	end  int
	base int64 // offset of buf in the sample data
	eof  bool  // src has no more data
	long bool  // a varint was longer than 64 bits
}

// errStop means that yield returned false.
var errStop = errors.New("stop")

// run decodes all samples. It returns nil at the end or when yield returns false.
func (d *decoder) run(yield func(*tachyon.Sample, error) bool) error {
	if err := d.fill(); err != nil {
		return err
	}
	var (
		s     tachyon.Sample
		th    *thread
		err   error
		order = wire.Order(&d.r.header)
		big   = d.r.header.BigEndian
	)
	for {
		if d.end-d.pos < padding && !d.eof {
			if err := d.fill(); err != nil {
				return err
			}
		}
		if d.pos == d.end {
			return d.finish(len(d.threads.list))
		}
		b := d.buf[d.pos : d.pos+padding]
		var id uint64
		var interpreter uint32
		if big {
			id, interpreter = order.Uint64(b), order.Uint32(b[8:])
		} else {
			id = uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
				uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
			interpreter = uint32(b[8]) | uint32(b[9])<<8 | uint32(b[10])<<16 | uint32(b[11])<<24
		}
		if d.end-d.pos < 13 {
			return d.cut()
		}
		if th == nil || !th.is(id, interpreter) {
			if th, err = d.threads.find(id, interpreter, d.r.header.Start); err != nil {
				return d.errorAt(d.pos, "%w", err)
			}
			s.Thread, s.Interpreter = id, interpreter
		}
		encoding := b[12]
		start := d.pos
		d.pos += 13
		if encoding == wire.Repeat {
			if err := d.repeat(th, &s, yield); err != nil {
				if err == errStop {
					return nil
				}
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
		th.time += d.uvarint()
		s.Time = th.time
		s.Status = tachyon.Status(d.buf[d.pos])
		d.pos++
		if err := d.stack(th, encoding); err != nil {
			return err
		}
		s.Stack = th.frames[th.top:]
		if !yield(&s, nil) {
			return nil
		}
	}
}

// repeat decodes the rest of a REPEAT record: samples with the thread's previous stack.
func (d *decoder) repeat(th *thread, s *tachyon.Sample, yield func(*tachyon.Sample, error) bool) error {
	n, err := d.repeats()
	if err != nil {
		return err
	}
	s.Stack = th.frames[th.top:]
	for ; n > 0; n-- {
		if d.end-d.pos < maxVarint+1 && !d.eof {
			if err := d.fill(); err != nil {
				return err
			}
		}
		delta := d.uvarint()
		s.Status = tachyon.Status(d.buf[d.pos])
		d.pos++
		if d.pos > d.end {
			return d.cut()
		}
		th.time += delta
		s.Time = th.time
		if !yield(s, nil) {
			return errStop
		}
	}
	return nil
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

// stack decodes the stack of a FULL, SUFFIX or POP_PUSH record.
func (d *decoder) stack(th *thread, encoding wire.Encoding) error {
	keep, err := d.kept(encoding, th.depth())
	if err != nil {
		return err
	}
	at := d.pos
	n := d.uvarint()
	if d.pos > d.end {
		return d.cut()
	}
	frames, err := d.threads.push(th, keep, n)
	if err != nil {
		return d.errorAt(at, "%w", err)
	}
	return d.indices(frames)
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

// indices decodes len(dst) frame indices.
func (d *decoder) indices(dst []uint32) error {
	count := uint64(len(d.r.Frames()))
	for len(dst) > 0 {
		if d.end-d.pos < padding && !d.eof {
			if err := d.fill(); err != nil {
				return err
			}
		}
		// n indices can be decoded without a check for the end of the data.
		room := d.end - d.pos
		if d.eof {
			room += padding
		}
		n := min(len(dst), room/maxVarint)
		b, p := d.buf, d.pos
		for i := range dst[:n] {
			v := uint64(b[p])
			if v < 0x80 {
				p++
			} else if c := b[p+1]; c < 0x80 {
				v = v&0x7f | uint64(c)<<7
				p += 2
			} else {
				v, p = d.longUvarint(p)
				if p > d.end { // the padding may be shorter than the indices to come
					d.pos = p
					return d.cut()
				}
			}
			if v >= count {
				d.pos = p
				return d.bad(p-1, "stack refers to frame %d, but the file has %d frames", v, count)
			}
			dst[i] = uint32(v)
		}
		d.pos = p
		if p > d.end {
			return d.cut()
		}
		dst = dst[n:]
	}
	return nil
}

// uvarint decodes a number. If the number is truncated or too long, pos is beyond end
// afterwards.
func (d *decoder) uvarint() uint64 {
	b := d.buf[d.pos : d.pos+2]
	if b[0] < 0x80 {
		d.pos++
		return uint64(b[0])
	}
	if b[1] < 0x80 { // for example the time between two ticks
		d.pos += 2
		return uint64(b[0]&0x7f) | uint64(b[1])<<7
	}
	v, p := d.longUvarint(d.pos)
	d.pos = p
	return v
}

// longUvarint decodes a number at p and returns the number and its end. Every number ends
// at the latest in the zero bytes after the data.
func (d *decoder) longUvarint(p int) (uint64, int) {
	v, n := binary.Uvarint(d.buf[p:])
	if n <= 0 {
		d.long = true
		return 0, d.end + 1
	}
	return v, p + n
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
