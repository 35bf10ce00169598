package wire

import (
	"encoding/binary"

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
