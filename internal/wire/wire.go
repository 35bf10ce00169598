// Package wire encodes the parts of a Tachyon file that more than one package
// needs: header and footer, the tables between sample region and footer, the statistics,
// metadata objects, and the end of a compressed region. Only package writer encodes sample
// records. Package decode reads what this one encodes.
//
// Package tachyon describes the format.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/zstd"

	"github.com/gotach/profiler/tachyon"
)

// An Encoding says how a record stores its stack.
type Encoding = uint8

// The encodings of a sample record. They are part of the format and must not be changed.
const (
	Repeat  Encoding = 0
	Full    Encoding = 1
	Suffix  Encoding = 2
	PopPush Encoding = 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC returns the CRC-32C of some bytes and b, given crc, which is that of the bytes before b.
func CRC(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// AppendString appends a string's entry for the string table.
func AppendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendFrame appends a frame's entry for the frame table. file and function are indices
// into the string table. The document's layout does not store the span.
func AppendFrame(b []byte, layout tachyon.Layout, file, function uint32, line int32, span *tachyon.Span) []byte {
	b = binary.AppendUvarint(b, uint64(file))
	b = binary.AppendUvarint(b, uint64(function))
	b = binary.AppendVarint(b, int64(line))
	if layout == tachyon.CPython315 {
		b = binary.AppendVarint(b, int64(span.Lines))
		b = binary.AppendVarint(b, int64(span.Column)-1)
		b = binary.AppendVarint(b, int64(span.Columns))
		b = append(b, byte(span.Opcode-1)) // none is 255
	}
	return b
}

// EncodeMetadata returns a metadata object: v as JSON, with "gotach": kind as its first key.
// If v is not a JSON object, it becomes the value of a key that is named like the kind.
func EncodeMetadata(kind string, v any) ([]byte, error) {
	name, err := json.Marshal(kind)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out := append([]byte(`{"gotach":`), name...)
	switch {
	case string(b) == "{}":
		return append(out, '}'), nil
	case b[0] == '{':
		return append(append(out, ','), b[1:]...), nil
	}
	out = append(append(out, ','), name...)
	return append(append(append(out, ':'), b...), '}'), nil
}

// Magic numbers and settings of compressed sample regions (RFC 8878).
const (
	ZstdMagic = 0xfd2fb528 // starts a frame, little-endian

	zstdLevel  = 5
	zstdWindow = 2 << 20 // bytes; the same as CPython's
)

// NewEncoder returns a zstd encoder for sample regions, which runs in the caller's
// goroutine. Its level is klauspost's for zstd's level 5, plus better.
func NewEncoder(better int) (*zstd.Encoder, error) { return newEncoder(better, zstdWindow) }

// NewBlockEncoder returns a zstd encoder for blocks of records, which runs in the caller's
// goroutine.
func NewBlockEncoder() (*zstd.Encoder, error) { return newEncoder(0, BlockSize) }

func newEncoder(better, window int) (*zstd.Encoder, error) {
	return zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(zstdLevel)+zstd.EncoderLevel(better)),
		zstd.WithWindowSize(window),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false),
		zstd.WithLowerEncoderMem(true),
		zstd.WithZeroFrames(true)) // an empty region is an empty frame, like CPython's
}

// EndRegion returns the bytes that end a region at a file offset. It returns an empty last
// block if a zstd frame is open, an empty frame if the region is empty, and nothing
// otherwise or without compression.
func EndRegion(compression uint32, offset int64, open bool) []byte {
	switch {
	case compression == tachyon.CompressionNone:
		return nil
	case open:
		return []byte{1, 0, 0}
	case offset == tachyon.HeaderSize:
		return []byte{0x28, 0xB5, 0x2F, 0xFD, 0x20, 0, 1, 0, 0}
	}
	return nil
}

// CheckTime returns an error if a time or a length in µs is beyond tachyon.MaxTime.
func CheckTime(what string, us uint64) error {
	if us > tachyon.MaxTime {
		return fmt.Errorf("%s of %d µs is beyond the limit of %d", what, us, uint64(tachyon.MaxTime))
	}
	return nil
}

// CheckStops returns an error if the time or a number of stops is beyond tachyon.MaxTime, or if the
// ids do not ascend.
func CheckStops(s *tachyon.Stops) error {
	last := uint64(0)
	for i := range s.List {
		g := &s.List[i]
		if g.N > tachyon.MaxTime || i > 0 && g.ID <= last {
			return fmt.Errorf("stops of goroutine %d: %d, after goroutine %d", g.ID, g.N, last)
		}
		last = g.ID
	}
	return CheckTime("stops until", s.Until)
}
