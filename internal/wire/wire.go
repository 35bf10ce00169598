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
	"hash/crc32"

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
