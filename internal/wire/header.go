package wire

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/gotach/profiler/tachyon"
)

// EncodeHeader returns a header's bytes, little-endian.
func EncodeHeader(h *tachyon.Header) (b [tachyon.HeaderSize]byte) {
	le := binary.LittleEndian
	le.PutUint32(b[0:], tachyon.Magic)
	le.PutUint32(b[4:], uint32(h.Layout))
	if h.Layout == tachyon.CPython315 {
		copy(b[8:], h.Python[:])
		le.PutUint64(b[12:], h.Start)
		le.PutUint64(b[20:], h.Interval)
		le.PutUint64(b[28:], h.Samples)
		le.PutUint32(b[36:], h.Threads)
		le.PutUint64(b[40:], h.StringOffset)
		le.PutUint64(b[48:], h.FrameOffset)
		le.PutUint32(b[56:], h.Compression)
		le.PutUint32(b[60:], h.Config)
		return b
	}
	le.PutUint64(b[8:], h.Start)
	le.PutUint64(b[16:], h.Interval)
	le.PutUint32(b[24:], uint32(h.Samples))
	le.PutUint32(b[28:], h.Threads)
	le.PutUint64(b[32:], h.StringOffset)
	le.PutUint64(b[40:], h.FrameOffset)
	le.PutUint32(b[48:], h.Compression)
	return b
}

// Order returns the byte order of a file with this header.
func Order(h *tachyon.Header) binary.ByteOrder {
	if h.BigEndian {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// DecodeHeader decodes a header in either layout and byte order. It checks only the magic
// and the version. Package reader checks the offsets, because it knows the file's size.
func DecodeHeader(b []byte) (h tachyon.Header, err error) {
	if len(b) < tachyon.HeaderSize {
		return h, fmt.Errorf("%d bytes are too short for a header of %d", len(b), tachyon.HeaderSize)
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

// A Footer is the last 32 bytes of a file.
type Footer struct {
	Strings uint32
	Frames  uint32
	Size    uint64 // size of the whole file in bytes
}

// EncodeFooter returns a footer's bytes, little-endian.
func EncodeFooter(f *Footer) (b [tachyon.FooterSize]byte) {
	le := binary.LittleEndian
	le.PutUint32(b[0:], f.Strings)
	le.PutUint32(b[4:], f.Frames)
	le.PutUint64(b[8:], f.Size)
	return b
}

// DecodeFooter decodes a footer from its 32 bytes.
func DecodeFooter(b []byte, o binary.ByteOrder) Footer {
	return Footer{Strings: o.Uint32(b[0:]), Frames: o.Uint32(b[4:]), Size: o.Uint64(b[8:])}
}
