package writer

import (
	"errors"
	"io"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
	"github.com/klauspost/compress/zstd"
)

const (
	bufferSize   = journal.BufferSize
	shortRegion  = 128 << 10
	cpythonLimit = 1 << 30 // bytes of samples before compression
)

// A region is the sample region of a file while it is written: records gather
// in buf, which goes through zstd to the file when it is full. The first error sticks.
//
// Each buffer holds whole records and is flushed through zstd up to a block's
// end. So the file can be finished at any point between two buffers, should what
// comes after it fail.
type region struct {
	f    io.Writer
	zw   *zstd.Encoder // nil: no compression
	buf  []byte
	err  error
	off  int64 // file offset that the region has come to, with no error
	far  int64 // the same, half-written buffers included
	crc  uint32
	raw  uint64 // bytes before compression, those in buf not counted
	last [8]point
	n    int // points so far; point i is last[i % len(last)]

	j       *journal.Writer // whose memory buf is; may be nil
	unsaved []byte          // buf, when writing it to the file failed

	samples uint64 // in records written, those in buf included
	threads uint32 // of these records
}

// A point is a place where the region can end.
type point struct {
	off     int64
	crc     uint32
	samples uint64
	threads uint32
	raw     uint64
}

func (r *region) init(o Options) (err error) {
	if o.Uncompressed {
		return nil
	}
	better := 0
	if o.Compact {
		better = 1
	}
	r.zw, err = wire.NewEncoder(better)
	return err
}

// compression is the header's.
func (r *region) compression() uint32 {
	if r.zw == nil {
		return tachyon.CompressionNone
	}
	return tachyon.CompressionZstd
}

// begin starts the region in a file that stands behind its header.
func (r *region) begin(f io.Writer) {
	*r = region{f: f, zw: r.zw, buf: r.buf[:0], j: r.j, off: tachyon.HeaderSize, far: tachyon.HeaderSize}
	if cap(r.buf) == 0 {
		r.buf = make([]byte, 0, bufferSize)
	}
	if r.zw != nil {
		r.zw.Reset((*sink)(r))
	}
	r.mark()
}

// room returns the buffer with at least n bytes of room, n being well below its size.
func (r *region) room(n int) []byte {
	if len(r.buf)+n > cap(r.buf) {
		r.flush()
	}
	return r.buf
}

// flush hands the buffer on to the file.
func (r *region) flush() {
	if r.err == nil {
		if r.zw == nil {
			_, r.err = (*sink)(r).Write(r.buf)
		} else if _, r.err = r.zw.Write(r.buf); r.err == nil {
			r.err = r.zw.Flush()
		}
		if r.err == nil {
			r.raw += uint64(len(r.buf))
			r.mark()
		} else if r.j != nil {
			r.unsaved, r.buf = r.buf, nil
			return
		}
	}
	r.buf = r.buf[:0]
}

// resume goes back to where the file was good before an error, with the buffer
// as it was then: the journal's, from which nothing was taken.
func (r *region) resume() error {
	p := r.last[(r.n-1)%len(r.last)]
	if s, ok := r.f.(io.Seeker); !ok {
		return errors.ErrUnsupported
	} else if _, err := s.Seek(p.off, io.SeekStart); err != nil {
		return err
	}
	r.err, r.off, r.crc = nil, p.off, p.crc
	if r.unsaved != nil {
		r.buf, r.unsaved = r.unsaved, nil
	}
	if r.zw != nil {
		if p.raw > 0 { // in a frame, which cannot go on
			if _, err := (*sink)(r).Write(wire.EndRegion(r.compression(), p.off, true)); err != nil {
				r.err = err
				return err
			}
		}
		r.zw.Reset((*sink)(r))
	}
	r.j.Advance(journal.Point{Offset: r.off, Samples: p.samples, Raw: p.raw, Threads: p.threads, CRC: r.crc}, len(r.buf))
	return nil
}

// mark notes that the region can end here.
func (r *region) mark() {
	r.last[r.n%len(r.last)] = point{r.off, r.crc, r.samples, r.threads, r.raw}
	r.n++
	if r.j != nil {
		r.j.Advance(r.point(), 0)
	}
}

// point says where the region has come to, with an empty buffer.
func (r *region) point() journal.Point {
	return journal.Point{
		Offset: r.off, Samples: r.samples, Raw: r.raw, Threads: r.threads, CRC: r.crc,
		Open: r.zw != nil && r.raw > 0,
	}
}

// finish ends the region.
func (r *region) finish() error {
	if r.err != nil {
		return r.err
	}
	switch {
	case r.zw == nil:
		_, r.err = (*sink)(r).Write(r.buf)
	case r.raw == 0 && len(r.buf) <= shortRegion:
		r.err = r.finishShort()
	default:
		if _, r.err = r.zw.Write(r.buf); r.err == nil {
			r.err = r.zw.Close()
		}
	}
	if r.err != nil && r.j != nil {
		return r.err // the journal has it
	}
	r.raw += uint64(len(r.buf))
	r.buf = r.buf[:0]
	return r.err
}

// finishShort writes a region that is in the buffer whole, at the better level:
// that costs a millisecond, once, and the default does badly on so little (an
// eighth larger than zstd's level 5).
func (r *region) finishShort() error {
	zw, err := wire.NewEncoder(1)
	if err != nil {
		return err
	}
	zw.Reset((*sink)(r))
	if _, err := zw.Write(r.buf); err != nil {
		return err
	}
	return zw.Close()
}

// cut goes back to a point; what it returns ends the region there.
func (r *region) cut(p point) []byte {
	r.off, r.crc, r.samples, r.threads = p.off, p.crc, p.samples, p.threads
	end := wire.EndRegion(r.compression(), p.off, p.raw > 0)
	r.crc = wire.CRC(r.crc, end)
	r.off += int64(len(end))
	return end
}

// points returns where the region can end, the last place first.
func (r *region) points(yield func(point) bool) {
	for i := r.n - 1; i >= 0 && i >= r.n-len(r.last); i-- {
		if !yield(r.last[i%len(r.last)]) {
			return
		}
	}
}

// A sink is a region's way to the file.
type sink region

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.f.Write(p)
	if n > 0 {
		s.far = max(s.far, s.off+int64(n))
	}
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err == nil {
		s.off += int64(n)
		s.crc = wire.CRC(s.crc, p)
	}
	return n, err
}
