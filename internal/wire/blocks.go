package wire

import (
	"encoding/binary"
)

const (
	BlockHeader = 12 // bytes before a block's stored bytes

	// BlockSize is the number of bytes of records after which a block is full. The last record may
	// go beyond it. Larger blocks would be some percent smaller compressed.
	BlockSize = 128 << 10
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
