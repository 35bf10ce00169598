package decode

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/gotach/profiler/internal/wire"
)

const (
	maxBlock = 8 << 20   // most bytes of records in a block of the record section
	blockMax = 128 << 10 // bytes in a block of zstd, at most
)

// A Block is the header of a block.
type Block struct {
	Stored  uint32 // length of the stored bytes
	Records uint32 // bytes of records
	CRC     uint32 // of the stored bytes
}

// CutBlock decodes the header of the block at the start of b, which is wire.BlockHeader bytes long
// at least.
func CutBlock(b []byte) Block {
	le := binary.LittleEndian
	return Block{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:])}
}

// ErrChecksum is the error for bytes that were changed.
var ErrChecksum = errors.New("wrong checksum, the file is damaged")

// Blocks returns the records of blocks. The zero value can be used. Close frees its memory.
type Blocks struct {
	z *zstd.Decoder
	b []byte
}

// Decode returns the records of a block, given its header and its stored bytes. They are valid
// until the next call.
func (d *Blocks) Decode(h Block, stored []byte) ([]byte, error) {
	switch {
	case h.Records > maxBlock:
		return nil, fmt.Errorf("a block of %d bytes of records; the most are %d", h.Records, maxBlock)
	case wire.CRC(0, stored) != h.CRC:
		return nil, fmt.Errorf("block: %w", ErrChecksum)
	case h.Stored == h.Records:
		return stored, nil
	}
	if d.z == nil {
		var err error
		d.z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(maxBlock), zstd.WithDecoderMaxWindow(maxBlock))
		if err != nil {
			return nil, err
		}
	}
	var err error
	if d.b, err = d.z.DecodeAll(stored, d.b[:0]); err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	if len(d.b) != int(h.Records) {
		return nil, fmt.Errorf("a block has %d bytes of records, its header says %d", len(d.b), h.Records)
	}
	return d.b, nil
}

// Close frees the memory of the decoder.
func (d *Blocks) Close() {
	if d.z != nil {
		d.z.Close()
	}
	*d = Blocks{}
}

// RawFrame returns records as a zstd frame of uncompressed blocks, for a reader in the same
// process (RFC 8878, 3.1.1).
func RawFrame(records []byte) []byte {
	const window = 7 << 3 // 2^(10+7) bytes
	b := []byte{0x28, 0xB5, 0x2F, 0xFD, 0, window}
	for {
		n := min(len(records), blockMax)
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
