package wire

import (
	"bufio"
	"encoding/binary"
	"io"

	"github.com/gotach/profiler/tachyon"
)

// A Tail writes what follows the sample region, in this order: strings, metadata,
// the checksum, frames, statistics and footer. The first error sticks and is
// returned by End.
type Tail struct {
	h    *tachyon.Header
	b    *bufio.Writer
	at   uint64 // file offset, bytes in b included
	foot Footer
	err  error // of encoding; b has its own
}

// NewTail begins a tail at an offset in the file, where the sample region ends
// and w stands. It sets the offsets in h as it comes to them.
func NewTail(w io.Writer, h *tachyon.Header, offset int64) *Tail {
	h.StringOffset = uint64(offset)
	return &Tail{h: h, b: bufio.NewWriterSize(w, 64<<10), at: uint64(offset)}
}

func (t *Tail) write(b []byte) {
	n, _ := t.b.Write(b) // Flush returns the error
	t.at += uint64(n)
}

// String adds a string, such as a metadata object.
func (t *Tail) String(s string) {
	t.write(binary.AppendUvarint(t.b.AvailableBuffer(), uint64(len(s))))
	n, _ := t.b.WriteString(s)
	t.at += uint64(n)
	t.foot.Strings++
}

// Strings adds n strings as encoded by [AppendString].
func (t *Tail) Strings(b []byte, n uint32) {
	t.write(b)
	t.foot.Strings += n
}

// Checksum adds the CRC-32C of the sample region, which is the last string.
func (t *Tail) Checksum(crc uint32) {
	b, err := EncodeMetadata(tachyon.KindChecksum, tachyon.Checksum{CRC32C: crc})
	if err != nil {
		t.err = err
		return
	}
	t.String(string(b))
}

// Frames adds n frames as encoded by [AppendFrame]. No string can follow.
func (t *Tail) Frames(b []byte, n uint32) {
	t.frameTable()
	t.write(b)
	t.foot.Frames += n
}

// Buffer returns an empty slice to encode the next frame into.
func (t *Tail) Buffer() []byte { return t.b.AvailableBuffer() }

// frameTable notes where the frame table starts.
func (t *Tail) frameTable() {
	if t.h.FrameOffset == 0 {
		t.h.FrameOffset = t.at
	}
}

// End adds the statistics, as encoded by [EncodeStatistics] or none, and the
// footer, and returns the size of the file. The header is complete then and must
// be written last: it makes the file a finished one.
func (t *Tail) End(statistics []byte) (size int64, err error) {
	t.frameTable()
	t.write(statistics)
	t.foot.Size = t.at + tachyon.FooterSize
	foot := EncodeFooter(&t.foot)
	t.write(foot[:])
	if err := t.b.Flush(); err != nil {
		return 0, err
	}
	return int64(t.foot.Size), t.err
}
