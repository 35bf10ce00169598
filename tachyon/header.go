package tachyon

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Header is the first 64 bytes of a file, in either layout.
type Header struct {
	Layout       Layout
	Start        uint64 // µs; what the first delta of each thread counts from
	Interval     uint64 // µs between two ticks, as asked
	Samples      uint64 // 32 bits on disk in Document
	Threads      uint32 // different (thread, interpreter) pairs
	StringOffset uint64
	FrameOffset  uint64
	Compression  uint32
	Python       [3]uint8 // CPython315: major, minor, micro
	Config       uint32   // CPython315: mode and features, see the package comment
	BigEndian    bool     // read only: the writer was big-endian
}

// Encode returns the header's bytes, little-endian.
func (h *Header) Encode() (b [HeaderSize]byte) {
	le := binary.LittleEndian
	le.PutUint32(b[0:], Magic)
	le.PutUint32(b[4:], uint32(h.Layout))
	if h.Layout == CPython315 {
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

// Order returns the byte order of the file.
func (h *Header) Order() binary.ByteOrder {
	if h.BigEndian {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// DecodeHeader reads a header in either layout and byte order. It checks the
// magic and the version alone; whether the offsets make sense depends on the
// file and is the reader's to say.
func DecodeHeader(b []byte) (h Header, err error) {
	if len(b) < HeaderSize {
		return h, fmt.Errorf("%d bytes is too short for a header of %d", len(b), HeaderSize)
	}
	switch magic := binary.LittleEndian.Uint32(b); magic {
	case Magic:
	case bits.ReverseBytes32(Magic):
		h.BigEndian = true
	default:
		return h, fmt.Errorf("not a Tachyon file: magic is %#08x, not %#08x", magic, uint32(Magic))
	}
	o := h.Order()
	h.Layout = Layout(o.Uint32(b[4:]))
	switch h.Layout {
	case CPython315:
		copy(h.Python[:], b[8:])
		h.Start = o.Uint64(b[12:])
		h.Interval = o.Uint64(b[20:])
		h.Samples = o.Uint64(b[28:])
		h.Threads = o.Uint32(b[36:])
		h.StringOffset = o.Uint64(b[40:])
		h.FrameOffset = o.Uint64(b[48:])
		h.Compression = o.Uint32(b[56:])
		h.Config = o.Uint32(b[60:])
	case Document:
		h.Start = o.Uint64(b[8:])
		h.Interval = o.Uint64(b[16:])
		h.Samples = uint64(o.Uint32(b[24:]))
		h.Threads = o.Uint32(b[28:])
		h.StringOffset = o.Uint64(b[32:])
		h.FrameOffset = o.Uint64(b[40:])
		h.Compression = o.Uint32(b[48:])
	default:
		return h, fmt.Errorf("format version %d is not one of %d (document) and %d (CPython 3.15)", uint32(h.Layout), Document, CPython315)
	}
	return h, nil
}

// Footer is the last 32 bytes of a file.
type Footer struct {
	Strings uint32
	Frames  uint32
	Size    uint64 // of the whole file
}

// Encode returns the footer's bytes, little-endian, with a zero checksum as the document has it.
func (f *Footer) Encode() (b [FooterSize]byte) {
	le := binary.LittleEndian
	le.PutUint32(b[0:], f.Strings)
	le.PutUint32(b[4:], f.Frames)
	le.PutUint64(b[8:], f.Size)
	return b
}

// DecodeFooter reads the footer from its 32 bytes.
func DecodeFooter(b []byte, o binary.ByteOrder) Footer {
	return Footer{Strings: o.Uint32(b[0:]), Frames: o.Uint32(b[4:]), Size: o.Uint64(b[8:])}
}
