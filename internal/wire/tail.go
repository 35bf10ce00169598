package wire

import (
	"bufio"
	"encoding/binary"
	"io"

	"github.com/gotach/profiler/tachyon"
)

// A Tail writes the parts of a file after the sample region, in this order: strings,
// metadata, the checksum, frames, records, statistics and footer. End returns the first error.
type Tail struct {
	h    *tachyon.Header
	b    *bufio.Writer
	at   uint64 // file offset, with the bytes in b
	foot Footer
	err  error // first error of encoding; b keeps its own errors
}

// NewTail begins a tail at a file offset, which is the end of the sample region and the
// position of w. The Tail sets the offsets in h.
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

// Checksum adds the CRC-32C of the sample region, and before it the place of the record section,
// if that is not empty. These are the last strings. frames is the length in bytes of the frame
// table that follows. Checksum sets the section's version and offset.
func (t *Tail) Checksum(crc uint32, records *tachyon.Section, frames int64) {
	sum, err := EncodeMetadata(tachyon.KindChecksum, tachyon.Checksum{CRC32C: crc})
	if err != nil {
		t.err = err
		return
	}
	if records.Length > 0 {
		if err := t.place(records, int64(len(AppendString(nil, string(sum))))+frames); err != nil {
			t.err = err
			return
		}
	}
	t.String(string(sum))
}

// place adds the place of the record section, which begins so many bytes after it.
func (t *Tail) place(records *tachyon.Section, after int64) error {
	records.Version, records.Offset = tachyon.RecordsVersion, 0
	for {
		b, err := EncodeMetadata(tachyon.KindRecords, records)
		if err != nil {
			return err
		}
		// A larger offset has more digits, which make the offset larger, but not for long.
		offset := int64(t.at) + int64(len(AppendString(nil, string(b)))) + after
		if offset == records.Offset {
			t.String(string(b))
			return nil
		}
		records.Offset = offset
	}
}

// Records adds bytes of the record section. No frame can follow.
func (t *Tail) Records(b []byte) {
	t.frameTable()
	t.write(b)
}

// Frames adds n frames as encoded by [AppendFrame]. No string can follow.
func (t *Tail) Frames(b []byte, n uint32) {
	t.frameTable()
	t.write(b)
	t.foot.Frames += n
}

// Buffer returns an empty slice to encode the next frame into.
func (t *Tail) Buffer() []byte { return t.b.AvailableBuffer() }

// frameTable stores the start of the frame table in the header.
func (t *Tail) frameTable() {
	if t.h.FrameOffset == 0 {
		t.h.FrameOffset = t.at
	}
}

// End adds the statistics, which are given as their bytes, nil if there are none, and the
// footer. It returns the size of the file in bytes. After End the header is complete. The
// caller must write the header last, because a file with a header is finished.
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
