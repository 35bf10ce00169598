package journal

import (
	"encoding/binary"
	"slices"

	"github.com/gotach/profiler/internal/wire"
)

// wholeBlocks returns the complete blocks at the start of b and the number of bytes of records in
// them. Blocks with a wrong checksum can be there after a reboot.
func wholeBlocks(b []byte) (whole []byte, records uint64) {
	at := 0
	for len(b)-at >= wire.BlockHeader {
		h := wire.CutBlock(b[at:])
		stored := b[at+wire.BlockHeader:]
		if uint64(h.Stored) > uint64(len(stored)) || wire.CRC(0, stored[:h.Stored]) != h.CRC {
			break
		}
		at += wire.BlockHeader + int(h.Stored)
		records += uint64(h.Records)
	}
	return b[:at], records
}

// alone returns the whole records after the first so many bytes of records, which are in blocks.
func (p *pages) alone(before uint64) (b []byte) {
	for _, s := range p.streams {
		next := before + uint64(len(b))
		if s.kind == kindRecords && s.before <= next && next-s.before < uint64(len(s.b)) {
			b = append(b, s.b[next-s.before:]...)
		}
	}
	return b[:wire.WholeRecords(b)]
}

// places keeps the latest progress of a page.
func (p *pages) places(b []byte) {
	ne := binary.NativeEndian
	for at := pageHead; at < pageHead+2*place; at += place {
		h := b[at : at+place]
		seq, size := ne.Uint64(h), ne.Uint32(h[8:])
		if seq <= p.progSeq || size > place-placeHead {
			continue
		}
		if json := h[placeHead : placeHead+size]; wire.CRC(0, json) == ne.Uint32(h[12:]) {
			p.progress, p.progSeq = slices.Clone(json), seq
		}
	}
}
