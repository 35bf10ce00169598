package unfinished

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gotach/profiler/internal/decode"
	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/wire"
)

// pages is the content of the pages after the buffer.
type pages struct {
	f     io.ReaderAt
	end   uint64 // end of the records that were read, as an offset in the decompressed samples
	moved uint64 // id of the slot whose repeats are in these records, or 0

	noSlots bool // read only the tables

	known   Known
	skipped [journal.KindBlocks + 1]int // by kind: bytes in pages that were not read, because they are known

	streams []stream
	repeats map[threadKey][]byte // pending repeats
	order   []threadKey
	size    int

	progress []byte
	progSeq  uint64 // its sequence number
}

type stream struct {
	kind, seq uint64
	before    uint64 // journal.KindRecords: bytes of records before b
	b         []byte
}

type threadKey struct {
	thread      uint64
	interpreter uint32
}

// tablePage is a page of a table, or that of the progress.
type tablePage struct {
	off       int64 // in the file
	kind, seq uint64
}

// read reads the pages. It reads the tables last, so that they have all strings and frames of the
// records.
func (p *pages) read() error {
	p.repeats = make(map[threadKey][]byte)
	ne := binary.NativeEndian
	b, again := make([]byte, journal.PageSize), make([]byte, journal.PageSize)
	var tables []tablePage
	for off := int64(journal.FirstPage * journal.PageSize); ; off += journal.PageSize {
		if _, err := p.f.ReadAt(b[:journal.PageHead], off); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		kind := ne.Uint64(b)
		switch {
		case kind >= journal.KindStrings && kind <= journal.KindMetadata, kind == journal.KindBlocks, kind == journal.KindProgress:
			// Blocks come after the records that are alone: a running writer may put these into
			// a block meanwhile.
			tables = append(tables, tablePage{off, kind, ne.Uint64(b[16:])})
			continue
		case kind == journal.KindRecords && !p.noSlots:
		case kind < journal.MinSlot || kind > journal.MaxSlot || p.noSlots:
			continue
		}
		// Read the page twice; the runs are taken from the first copy. The writer stores a
		// slot's bytes before it counts them in the slot's head. An equal head in the second
		// copy shows that the slot was not refilled while the first copy was read.
		for _, b := range [][]byte{b, again} {
			if _, err := p.f.ReadAt(b, off); err != nil {
				return err
			}
		}
		if ne.Uint64(b) != kind || !bytes.Equal(b[16:journal.PageHead], again[16:journal.PageHead]) || ne.Uint64(again) != kind {
			continue // the writer reused the page for another kind
		}
		if kind == journal.KindRecords {
			if err := p.table(b); err != nil {
				return err
			}
			continue
		}
		if err := p.slots(b, again, off, int(kind)); err != nil {
			return err
		}
	}
	return p.readTables(tables)
}

// readTables reads the pages that have something that is not known.
func (p *pages) readTables(tables []tablePage) error {
	ne, b := binary.NativeEndian, make([]byte, journal.PageSize)
	slices.SortFunc(tables, func(a, b tablePage) int { return cmp.Compare(a.seq, b.seq) })
	var begun [journal.KindProgress + 1]bool // by kind: a page has something new, so all later ones have
	for _, t := range tables {
		// A page that got another kind meanwhile is the newest of its kind.
		if known := p.knownOf(t.kind); known > 0 && !begun[t.kind] {
			if _, err := p.f.ReadAt(b[:journal.PageHead], t.off); err != nil {
				return err
			}
			used := int(min(ne.Uint64(b[8:]), journal.PageSize-journal.PageHead))
			if ne.Uint64(b) == t.kind && ne.Uint64(b[16:]) == t.seq && p.skipped[t.kind]+used <= known {
				p.skipped[t.kind] += used
				continue
			}
			begun[t.kind] = true
		}
		if _, err := p.f.ReadAt(b, t.off); err != nil {
			return err
		}
		if ne.Uint64(b) == journal.KindProgress {
			p.places(b)
			continue
		}
		if err := p.table(b); err != nil {
			return err
		}
	}
	slices.SortFunc(p.streams, func(a, b stream) int { return cmp.Compare(a.seq, b.seq) })
	return nil
}

// table adds a page of a table.
func (p *pages) table(b []byte) error {
	ne := binary.NativeEndian
	used := min(ne.Uint64(b[8:]), journal.PageSize-journal.PageHead)
	if p.size += int(used); p.size > maxSize {
		return errors.New("the tables are too large")
	}
	p.streams = append(p.streams, stream{ne.Uint64(b), ne.Uint64(b[16:]), ne.Uint64(b[journal.AtBefore:]), slices.Clone(b[journal.PageHead : journal.PageHead+used])})
	return nil
}

// slots adds the runs of a page that was read twice. After the records were read, or between
// the two copies, a running writer may have emptied and refilled a slot. Such a run begins
// after these records and is left out.
func (p *pages) slots(b, again []byte, off int64, size int) error {
	ne := binary.NativeEndian
	for at := journal.PageHead; at+journal.SlotHead+size <= journal.PageSize; at += journal.SlotHead + size {
		h := b[at : at+journal.SlotHead]
		used, begin := ne.Uint64(h[24:]), ne.Uint64(h[16:])
		if used == 0 || uint64(off+int64(at))>>3 == p.moved || begin > p.end {
			continue
		}
		if !bytes.Equal(h[:24], again[at:at+24]) || ne.Uint64(again[at+24:]) < used {
			continue
		}
		if used > uint64(size) {
			return fmt.Errorf("offset %d: damaged slot, %d bytes used of %d", off+int64(at), used, size)
		}
		k := threadKey{ne.Uint64(h), ne.Uint32(h[8:])}
		old, ok := p.repeats[k]
		if ok && len(old) >= int(used) {
			continue
		}
		if !ok {
			p.order = append(p.order, k)
		}
		if p.size += int(used); p.size > maxSize {
			return errors.New("the pending repeats are too large")
		}
		p.repeats[k] = slices.Clone(b[at+journal.SlotHead : at+journal.SlotHead+int(used)])
	}
	return nil
}

// appendRepeats appends a REPEAT record for each run.
func (p *pages) appendRepeats(b []byte) []byte {
	for _, k := range p.order {
		n, whole := 0, 0
		for r := p.repeats[k]; whole < len(r); n++ {
			_, size := binary.Uvarint(r[whole:])
			if size <= 0 || whole+size == len(r) {
				break
			}
			whole += size + 1
		}
		if n == 0 {
			continue
		}
		b = binary.LittleEndian.AppendUint64(b, k.thread)
		b = binary.LittleEndian.AppendUint32(b, k.interpreter)
		b = binary.AppendUvarint(append(b, wire.Repeat), uint64(n))
		b = append(b, p.repeats[k][:whole]...)
	}
	return b
}

// knownOf returns how many bytes of a table are known.
func (p *pages) knownOf(kind uint64) int {
	switch kind {
	case journal.KindStrings:
		return p.known.Strings
	case journal.KindFrames:
		return p.known.Frames
	case journal.KindBlocks:
		return p.known.Blocks
	}
	return 0
}

// fresh returns what a table has after its first so many bytes.
func (p *pages) fresh(kind uint64, known int) ([]byte, error) {
	b := p.stream(kind)
	if known -= p.skipped[kind]; known > len(b) {
		return nil, ErrLess
	}
	return b[known:], nil
}

func (p *pages) stream(kind uint64) (b []byte) {
	for _, s := range p.streams {
		if s.kind == kind {
			b = append(b, s.b...)
		}
	}
	return b
}

// maxSize is the most bytes of tables and repeats that are read from a journal.
const maxSize = 1 << 30

// alone returns the whole records after the first so many bytes of records, which are in blocks.
func (p *pages) alone(before uint64) (b []byte) {
	for _, s := range p.streams {
		next := before + uint64(len(b))
		if s.kind == journal.KindRecords && s.before <= next && next-s.before < uint64(len(s.b)) {
			b = append(b, s.b[next-s.before:]...)
		}
	}
	return b[:decode.Whole(b)]
}

// places keeps the latest progress of a page.
func (p *pages) places(b []byte) {
	ne := binary.NativeEndian
	for at := journal.PageHead; at < journal.PageHead+2*journal.PlaceSize; at += journal.PlaceSize {
		h := b[at : at+journal.PlaceSize]
		seq, size := ne.Uint64(h), ne.Uint32(h[8:])
		if seq <= p.progSeq || size > journal.PlaceSize-journal.PlaceHead {
			continue
		}
		if json := h[journal.PlaceHead : journal.PlaceHead+size]; wire.CRC(0, json) == ne.Uint32(h[12:]) {
			p.progress, p.progSeq = slices.Clone(json), seq
		}
	}
}
