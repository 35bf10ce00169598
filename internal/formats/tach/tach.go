// Package tach is the Tachyon format among the formats: it tells files of its two
// layouts, writes any stream of samples as one, and keeps samples of other formats
// in memory as one. Files are read by package reader.
package tach

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// Sniff reports whether a file that begins with head is a Tachyon file in a layout
// other than CPython's. A file that is not finished has zeros for a header.
func Sniff(head []byte) bool {
	v, ok := version(head)
	return ok && v != uint32(tachyon.CPython315) ||
		len(head) >= tachyon.HeaderSize && bytes.Count(head[:tachyon.HeaderSize], []byte{0}) == tachyon.HeaderSize
}

// SniffCPython reports whether a file that begins with head is a Tachyon file in
// CPython's layout.
func SniffCPython(head []byte) bool {
	v, ok := version(head)
	return ok && v == uint32(tachyon.CPython315)
}

// version returns the version of a Tachyon file of either byte order.
func version(head []byte) (version uint32, ok bool) {
	if len(head) < 8 {
		return 0, len(head) >= 4 && (string(head[:4]) == "HCAT" || string(head[:4]) == "TACH")
	}
	for _, o := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		if o.Uint32(head) == tachyon.Magic {
			return o.Uint32(head[4:]), true
		}
	}
	return 0, false
}

// Read opens a stream that is read from r. Errors call it by its name.
func Read(r io.Reader, name string) (*reader.Reader, error) {
	return reader.New(named{r, name})
}

type named struct {
	io.Reader
	name string
}

// Name tells reader.New.
func (n named) Name() string { return n.name }
