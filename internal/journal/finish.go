package journal

import (
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/gotach/profiler/tachyon"
)

// The ends of a zstd frame's data: an empty last block, or an empty frame.
var (
	zstdLastBlock  = []byte{1, 0, 0}
	zstdEmptyFrame = []byte{0x28, 0xB5, 0x2F, 0xFD, 0x20, 0, 1, 0, 0}
)

// RawFrame returns records as a zstd frame of blocks that are not compressed,
// for those who read it at once (RFC 8878, 3.1.1).
func RawFrame(records []byte) []byte {
	const (
		window  = 7 << 3 // 2^(10+7) bytes
		maximum = 128 << 10
	)
	b := []byte{0x28, 0xB5, 0x2F, 0xFD, 0, window}
	for {
		n := min(len(records), maximum)
		head := uint32(n) << 3
		if n == len(records) {
			head |= 1 // the last one
		}
		b = append(append(b, byte(head), byte(head>>8), byte(head>>16)), records[:n]...)
		if records = records[n:]; len(records) == 0 {
			return b
		}
	}
}

// Finish returns the header of the finished profile and all that comes after
// Point.Offset, given how many samples and threads it has. Compress makes a
// zstd frame of records.
func (s *State) Finish(samples uint64, threads uint32, compress func([]byte) []byte) (tachyon.Header, []byte, error) {
	var tail []byte
	switch {
	case s.Compression == tachyon.CompressionNone:
		tail = append(tail, s.Records...)
	default:
		if s.Point.Open {
			tail = append(tail, zstdLastBlock...)
		}
		switch {
		case len(s.Records) > 0:
			tail = append(tail, compress(s.Records)...)
		case s.Point.Offset == tachyon.HeaderSize:
			tail = append(tail, zstdEmptyFrame...)
		}
	}
	h := tachyon.Header{
		Layout: tachyon.Layout(s.Layout), Start: s.Start, Interval: s.Interval, Compression: s.Compression,
		Python: s.Python, Config: s.Config, Samples: samples, Threads: threads,
		StringOffset: uint64(s.Point.Offset) + uint64(len(tail)),
	}
	sum := tachyon.Checksum{CRC32C: crc32.Update(s.Point.CRC, crc32.MakeTable(crc32.Castagnoli), tail)}
	text, err := json.Marshal(sum)
	if err != nil {
		return h, nil, err
	}
	tail = append(tail, s.Strings...)
	n := s.NStrings
	for _, m := range append(s.Metadata, fmt.Sprintf(`{"gotach":%q,%s`, tachyon.KindChecksum, text[1:])) {
		tail = append(tachyon.AppendUvarint(tail, uint64(len(m))), m...)
		n++
	}
	h.FrameOffset = uint64(s.Point.Offset) + uint64(len(tail))
	tail = append(append(tail, s.Frames...), s.Stats...)
	foot := tachyon.Footer{Strings: n, Frames: s.NFrames, Size: uint64(s.Point.Offset) + uint64(len(tail)) + tachyon.FooterSize}
	fb := foot.Encode()
	return h, append(tail, fb[:]...), nil
}
