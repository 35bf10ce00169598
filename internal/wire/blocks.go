package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

const (
	BlockHeader = 12 // bytes before a block's stored bytes

	// BlockSize is the number of bytes of records after which a block is full. The last record may
	// go beyond it. Larger blocks would be some percent smaller compressed.
	BlockSize = 128 << 10

	maxBlock = 8 << 20 // most bytes of records in a block that is read
)

// AppendBlock appends a block of records. compress returns records as a zstd frame; it may be nil.
func AppendBlock(b, records []byte, compress func([]byte) []byte) []byte {
	stored := records
	if compress != nil {
		if z := compress(records); len(z) != len(records) {
			stored = z
		}
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(stored)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(records)))
	b = binary.LittleEndian.AppendUint32(b, CRC(0, stored))
	return append(b, stored...)
}

// A Block is the header of a block.
type Block struct {
	Stored  uint32 // length of the stored bytes
	Records uint32 // bytes of records
	CRC     uint32 // of the stored bytes
}

// CutBlock decodes the header of the block at the start of b, which is BlockHeader bytes long at least.
func CutBlock(b []byte) Block {
	le := binary.LittleEndian
	return Block{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:])}
}

// ErrChecksum is the error for bytes that were changed.
var ErrChecksum = errors.New("wrong checksum, the file is damaged")

// A BlockDecoder returns the records of blocks. The zero value can be used. Close frees its memory.
type BlockDecoder struct {
	z *zstd.Decoder
	b []byte
}

// Decode returns the records of a block, given its header and its stored bytes. They are valid until
// the next call.
func (d *BlockDecoder) Decode(h Block, stored []byte) ([]byte, error) {
	switch {
	case h.Records > maxBlock:
		return nil, fmt.Errorf("a block of %d bytes of records; the most are %d", h.Records, maxBlock)
	case CRC(0, stored) != h.CRC:
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
func (d *BlockDecoder) Close() {
	if d.z != nil {
		d.z.Close()
	}
	*d = BlockDecoder{}
}
