package writer

import (
	"errors"
	"io"
	"sync"

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

// A region is the sample region of a file that is being written. Records are collected in
// buf. When buf is full, it is compressed and written to the file. err keeps the first
// error.
//
// Each buffer holds complete records and is flushed up to the end of a zstd block. So the
// file can be completed at any point between two buffers if a later write fails.
type region struct {
	f    io.Writer
	zw   *zstd.Encoder // nil: no compression
	buf  []byte
	err  error
	off  int64 // file offset of the region's end
	far  int64 // the same with incomplete writes
	crc  uint32
	raw  uint64 // bytes before compression, without buf
	last [8]point
	n    int // points so far; point i is last[i % len(last)]

	j       *journal.Writer // buf is its memory; may be nil
	unsaved []byte          // buf, if writing it to the file failed

	samples uint64 // number of samples in records, with those in buf
	threads uint32 // number of threads in these records
}

// A point is a place at which the region can end.
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
	r.zw, err = wire.NewEncoder(0)
	return err
}

// compression returns the value of the header's field.
func (r *region) compression() uint32 {
	if r.zw == nil {
		return tachyon.CompressionNone
	}
	return tachyon.CompressionZstd
}

// begin starts the region in a file. The file's position is after the header.
func (r *region) begin(f io.Writer) {
	*r = region{f: f, zw: r.zw, buf: r.buf[:0], j: r.j, off: tachyon.HeaderSize, far: tachyon.HeaderSize}
	if cap(r.buf) == 0 {
		r.buf = make([]byte, 0, bufferSize)
	}
	r.mark()
}

// room returns the buffer with at least n free bytes. n is much smaller than the buffer.
func (r *region) room(n int) []byte {
	if len(r.buf)+n > cap(r.buf) {
		r.flush()
	}
	return r.buf
}

// flush writes the buffer to the file.
func (r *region) flush() {
	if r.err == nil {
		if r.zw == nil {
			_, r.err = (*sink)(r).Write(r.buf)
		} else if r.err = r.compress(); r.err == nil {
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

// compress gives the buffer to the encoder. The encoder gets its memory, some MB, when it has
// something to compress: a short region needs none.
func (r *region) compress() error {
	if r.raw == 0 {
		r.zw.Reset((*sink)(r))
	}
	_, err := r.zw.Write(r.buf)
	return err
}

// resume goes back to the last point before an error. The records after that point are
// still in the buffer, because the buffer is memory of the journal.
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
		if p.raw > 0 { // end the zstd frame: the encoder cannot continue it
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

// mark stores the present end of the region as a point.
func (r *region) mark() {
	r.last[r.n%len(r.last)] = point{r.off, r.crc, r.samples, r.threads, r.raw}
	r.n++
	if r.j != nil {
		r.j.Advance(r.point(), 0)
	}
}

// point returns the present end of the region, with an empty buffer.
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
		if r.err = r.compress(); r.err == nil {
			r.err = r.zw.Close()
		}
	}
	if r.err != nil && r.j != nil {
		return r.err // the journal still has the buffer
	}
	r.raw += uint64(len(r.buf))
	r.buf = r.buf[:0]
	return r.err
}

// shortEncoders are those of [region.finishShort]. Each has 5 MB, and a handler that sends profiles
// may write ten files a second.
var shortEncoders sync.Pool // of *zstd.Encoder

// finishShort writes a region that is completely in the buffer, with the better compression
// level. This takes about a millisecond once per file. With so little data the default
// level's result is an eighth larger than that of zstd's level 5.
func (r *region) finishShort() (err error) {
	zw, _ := shortEncoders.Get().(*zstd.Encoder)
	if zw == nil {
		if zw, err = wire.NewEncoder(1); err != nil {
			return err
		}
	}
	zw.Reset((*sink)(r))
	if _, err = zw.Write(r.buf); err == nil {
		err = zw.Close()
	}
	zw.Reset(nil) // r is not held
	shortEncoders.Put(zw)
	return err
}

// cut goes back to a point and returns the bytes that end the region there.
func (r *region) cut(p point) []byte {
	r.off, r.crc, r.samples, r.threads = p.off, p.crc, p.samples, p.threads
	end := wire.EndRegion(r.compression(), p.off, p.raw > 0)
	r.crc = wire.CRC(r.crc, end)
	r.off += int64(len(end))
	return end
}

// points yields the last few points, the latest one first.
func (r *region) points(yield func(point) bool) {
	for i := r.n - 1; i >= 0 && i >= r.n-len(r.last); i-- {
		if !yield(r.last[i%len(r.last)]) {
			return
		}
	}
}

// A sink writes to a region's file.
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
