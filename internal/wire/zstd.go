package wire

import (
	"github.com/klauspost/compress/zstd"

	"github.com/gotach/profiler/tachyon"
)

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
