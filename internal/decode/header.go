// Package decode reads the parts of a Tachyon file that package wire encodes, and that more than
// one package needs: header and footer, the statistics, and the blocks and records of the record
// section.
package decode

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// Order returns the byte order of a file with this header.
func Order(h *tachyon.Header) binary.ByteOrder {
	if h.BigEndian {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// Header decodes a header in either layout and byte order. It checks only the magic
// and the version. Package reader checks the offsets, because it knows the file's size.
func Header(b []byte) (h tachyon.Header, err error) {
	if len(b) < tachyon.HeaderSize {
		return h, fmt.Errorf("%d bytes are too short for a header of %d: not a Tachyon file, or truncated", len(b), tachyon.HeaderSize)
	}
	switch magic := binary.LittleEndian.Uint32(b); magic {
	case tachyon.Magic:
	case bits.ReverseBytes32(tachyon.Magic):
		h.BigEndian = true
	default:
		return h, fmt.Errorf("not a Tachyon file: magic number %#08x, want %#08x", magic, uint32(tachyon.Magic))
	}
	o := Order(&h)
	h.Layout = tachyon.Layout(o.Uint32(b[4:]))
	switch h.Layout {
	case tachyon.CPython315:
		copy(h.Python[:], b[8:])
		h.Start = o.Uint64(b[12:])
		h.Interval = o.Uint64(b[20:])
		h.Samples = o.Uint64(b[28:])
		h.Threads = o.Uint32(b[36:])
		h.StringOffset = o.Uint64(b[40:])
		h.FrameOffset = o.Uint64(b[48:])
		h.Compression = o.Uint32(b[56:])
		h.Config = o.Uint32(b[60:])
	case tachyon.Document:
		h.Start = o.Uint64(b[8:])
		h.Interval = o.Uint64(b[16:])
		h.Samples = uint64(o.Uint32(b[24:]))
		h.Threads = o.Uint32(b[28:])
		h.StringOffset = o.Uint64(b[32:])
		h.FrameOffset = o.Uint64(b[40:])
		h.Compression = o.Uint32(b[48:])
	default:
		return h, fmt.Errorf("format version %d is not one of %d (document) and %d (CPython 3.15)", uint32(h.Layout), tachyon.Document, tachyon.CPython315)
	}
	return h, nil
}

// Footer decodes a footer from its 32 bytes.
func Footer(b []byte, o binary.ByteOrder) wire.Footer {
	return wire.Footer{Strings: o.Uint32(b[0:]), Frames: o.Uint32(b[4:]), Size: o.Uint64(b[8:])}
}

// Statistics decodes the block at the end of b. It returns the block's size in bytes,
// which is 0 if there is no block. With an error, before is the distance in bytes of the
// error from the end of b.
func Statistics(b []byte, o binary.ByteOrder) (s *tachyon.Statistics, size, before int, err error) {
	if len(b) < statsOld || string(b[len(b)-statsTrailer:][:len(statsMagic)]) != statsMagic {
		return nil, 0, 0, nil
	}
	version, n := o.Uint32(b[len(b)-8:]), o.Uint32(b[len(b)-4:])
	if n < statsOld || uint64(n) > uint64(len(b)) {
		return nil, 0, 4, fmt.Errorf("%d bytes of statistics", n)
	}
	if version != 1 {
		return nil, 0, 0, nil // CPython ignores it too
	}
	size = int(n)
	block := b[len(b)-size:]
	known, present := 2, uint32(0)
	if size >= statsSize {
		known, present = 4, o.Uint32(block[32:])
	}
	var values [4]float64
	for i := range known {
		values[i] = math.Float64frombits(o.Uint64(block[8*i:]))
		if !finite(values[i]) {
			return nil, 0, size - 8*i, fmt.Errorf("the statistics hold %v", values[i])
		}
	}
	s = &tachyon.Statistics{Duration: values[0], Rate: values[1]}
	if present&1 != 0 {
		s.ErrorRate = &values[2]
	}
	if present&2 != 0 {
		s.Missed = &values[3]
	}
	return s, size, 0, nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// far reports whether a time since the start, which may be before it, is beyond tachyon.MaxTime.
func far(us uint64) bool { return us+tachyon.MaxTime > 2*tachyon.MaxTime }

// CheckGoroutine returns an error if a time of a goroutine is beyond tachyon.MaxTime.
func CheckGoroutine(g *tachyon.Goroutine) error {
	bad := far(g.First) || far(g.Last) || g.FirstWeight > tachyon.MaxTime
	for i := range g.Labels {
		bad = bad || far(g.Labels[i].From)
	}
	if bad {
		return fmt.Errorf("a time of goroutine %d is beyond the limit of %d µs", g.ID, uint64(tachyon.MaxTime))
	}
	return nil
}

// CheckSession returns an error if the length of a session is negative or beyond tachyon.MaxTime.
func CheckSession(s *tachyon.Session) error {
	if s.Duration < 0 || s.Duration > tachyon.MaxTime*time.Microsecond {
		return fmt.Errorf("the session's duration of %d ns is not between 0 and %d µs", s.Duration, uint64(tachyon.MaxTime))
	}
	return nil
}
