package journal

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/gotach/profiler/internal/files"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// maxSize is the most bytes of tables and repeats that are read from a journal.
const maxSize = 1 << 30

// maxFile is the size in bytes of the largest journal that is read. A sparse file of
// terabytes takes no space on the disk, but much time to read.
const maxFile = 8 << 30

// ErrNotJournal is the error for a file that is not a complete journal.
var ErrNotJournal = errors.New("not a journal, or an incomplete one")

// A State is the content of a journal: the part of an unfinished profile that is not in the
// profile's file.
type State struct {
	Head
	Point    Point
	Records  []byte   // sample records after the point, uncompressed
	Pending  int      // how many bytes at the end of Records are repeats that the writer still collects
	Strings  []byte   // the string table so far
	NStrings uint32   // number of its entries
	Frames   []byte   // the frame table so far
	NFrames  uint32   // number of its entries
	Metadata []string // metadata objects, in order

	Blocks   []byte // whole blocks of the record section
	Alone    []byte // whole records that are in no block
	Progress []byte // the latest progress as JSON; nil: none
}

// errMoved is the error if the writer emptied the buffer while the journal was read.
var errMoved = errors.New("the writer changed the journal while it was read, try again")

// Known is the part of a journal that was read before. It only grows while a writer uses the journal.
type Known struct {
	Strings, Frames, Blocks int    // bytes of whole entries
	NStrings                uint32 // number of the strings
	Records                 uint64 // bytes of records in the blocks
}

// Load reads the journal of the profile at path. If a writer is using the journal, the State
// has the samples of each thread up to some moment during the call.
func Load(path string) (*State, error) { return LoadNew(path, Known{}) }

// LoadNew is Load, but Strings, NStrings, Frames, NFrames and Blocks have only what is new. Pages that are known are not
// read. The error is ErrLess if the journal has less than what is known.
func LoadNew(path string, known Known) (*State, error) {
	f, fi, err := files.Open(path + Suffix)
	if err != nil {
		return nil, err
	}
	return readFile(f, fi, known)
}

// LoadIn is Load for a profile below root, which others may write to; see [files.OpenIn].
func LoadIn(root *os.Root, name string) (*State, error) {
	f, fi, err := files.OpenIn(root, name+Suffix, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return readFile(f, fi, Known{})
}

// readFile reads a journal and closes it.
func readFile(f *os.File, fi os.FileInfo, known Known) (_ *State, err error) {
	defer f.Close()
	if fi.Size() < chunkSize || fi.Size() > maxFile {
		return nil, fmt.Errorf("%s: %w", f.Name(), ErrNotJournal)
	}
	for range 10 {
		var s *State
		if s, err = read(f, known); err != errMoved {
			if err != nil {
				err = fmt.Errorf("%s: %w", f.Name(), err)
			}
			return s, err
		}
	}
	return nil, fmt.Errorf("%s: %w", f.Name(), err)
}

// ErrLess is the error of LoadNew if another writer began the journal anew.
var ErrLess = errors.New("the journal has less than before")

// Exists reports whether the profile at path has a journal.
func Exists(path string) bool {
	fi, err := os.Stat(path + Suffix)
	return err == nil && fi.Mode().IsRegular()
}

func read(f io.ReaderAt, known Known) (*State, error) {
	ne := binary.NativeEndian
	b := make([]byte, pageSize)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	if ne.Uint64(b) != magic {
		return nil, ErrNotJournal
	}
	if v := ne.Uint32(b[atVersion:]); v != version {
		return nil, fmt.Errorf("unknown journal version %d, want %d", v, version)
	}
	w := ne.Uint64(b[atCommit:])
	s := &State{
		Head: Head{
			Layout: ne.Uint32(b[atLayout:]), Start: ne.Uint64(b[atStart:]), Interval: ne.Uint64(b[atInterval:]),
			Compression: ne.Uint32(b[atCompression:]), Config: ne.Uint32(b[atConfig:]),
			Python: [3]uint8(b[atPython:]),
			Stats:  slices.Clone(b[atStats : atStats+min(64, int(b[atStatsSize]))]),
		},
		Point: readPoint(b[atPoints+w>>genShift&1*pointSize:]),
	}
	if p, ok := durable(b); ok && [bootSize]byte(b[atBoot:]) != boot() {
		// The machine was rebooted. Bytes that were not synced may be lost or old.
		s.Point = p
		tables := pages{f: f, noSlots: true, known: known}
		if err := tables.read(); err != nil {
			return nil, err
		}
		return s, s.fill(&tables)
	}
	length, slot := w&lengthMask, w>>lengthBits&slotMask
	if length > BufferSize || s.Point.Offset < tachyon.HeaderSize {
		return nil, fmt.Errorf("damaged control page: %d bytes in the buffer, profile offset %d", length, s.Point.Offset)
	}
	s.Records = make([]byte, length)
	if _, err := f.ReadAt(s.Records, pageSize); err != nil {
		return nil, err
	}
	p := pages{f: f, end: s.Point.Raw + length, moved: slot, known: known}
	if err := p.read(); err != nil {
		return nil, err
	}
	if _, err := f.ReadAt(b[:8], atCommit); err != nil {
		return nil, err
	}
	if ne.Uint64(b)>>genShift != w>>genShift {
		return nil, errMoved
	}
	s.Records = p.appendRepeats(s.Records)
	s.Pending = len(s.Records) - int(length)
	return s, s.fill(&p)
}

func (s *State) fill(p *pages) error {
	strings, e1 := p.fresh(kindStrings, p.known.Strings)
	frames, e2 := p.fresh(kindFrames, p.known.Frames)
	blocks, e3 := p.fresh(kindBlocks, p.known.Blocks)
	if err := cmp.Or(e1, e2, e3); err != nil {
		return err
	}
	s.Strings, s.NStrings = wholeStrings(strings)
	s.Frames, s.NFrames = wholeFrames(frames, p.known.NStrings+s.NStrings, s.Layout)
	s.Metadata = metadata(p.stream(kindMetadata))
	var records uint64
	s.Blocks, records = wholeBlocks(blocks)
	s.Alone = p.alone(p.known.Records + records)
	s.Progress = p.progress
	return nil
}

func readPoint(b []byte) Point {
	ne := binary.NativeEndian
	return Point{
		Offset: int64(ne.Uint64(b)), Samples: ne.Uint64(b[8:]), Raw: ne.Uint64(b[16:]),
		Threads: ne.Uint32(b[24:]), CRC: ne.Uint32(b[28:]), Open: ne.Uint32(b[32:]) == 1,
	}
}

// pages is the content of the pages after the buffer.
type pages struct {
	f     io.ReaderAt
	end   uint64 // end of the records that were read, as an offset in the decompressed samples
	moved uint64 // id of the slot whose repeats are in these records, or 0

	noSlots bool // read only the tables

	known   Known
	skipped [kindBlocks + 1]int // by kind: bytes in pages that were not read, because they are known

	streams []stream
	repeats map[threadKey]run
	order   []threadKey
	size    int

	progress []byte
	progSeq  uint64 // its sequence number
}

type stream struct {
	kind, seq uint64
	before    uint64 // kindRecords: bytes of records before b
	b         []byte
}

type threadKey struct {
	thread      uint64
	interpreter uint32
}

// A run is a thread's pending repeats.
type run struct {
	begin uint64
	b     []byte
}

func (p *pages) read() error {
	p.repeats = make(map[threadKey]run)
	ne := binary.NativeEndian
	b, again := make([]byte, pageSize), make([]byte, pageSize)
	// Read the tables last, so that they have all strings and frames of the records.
	type table struct {
		off       int64
		kind, seq uint64
	}
	var tables []table
	for off := int64(firstPage * pageSize); ; off += pageSize {
		if _, err := p.f.ReadAt(b[:pageHead], off); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		kind := ne.Uint64(b)
		switch {
		case kind >= kindStrings && kind <= kindMetadata, kind == kindBlocks, kind == kindProgress:
			// Blocks come after the records that are alone: a running writer may put these into
			// a block meanwhile.
			tables = append(tables, table{off, kind, ne.Uint64(b[16:])})
			continue
		case kind == kindRecords && !p.noSlots:
		case kind < minSlot || kind > maxSlot || p.noSlots:
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
		if ne.Uint64(b) != kind || !bytes.Equal(b[16:pageHead], again[16:pageHead]) || ne.Uint64(again) != kind {
			continue // the writer reused the page for another kind
		}
		if kind == kindRecords {
			if err := p.table(b); err != nil {
				return err
			}
			continue
		}
		if err := p.slots(b, again, off, int(kind)); err != nil {
			return err
		}
	}
	slices.SortFunc(tables, func(a, b table) int { return cmp.Compare(a.seq, b.seq) })
	var begun [kindProgress + 1]bool // by kind: a page has something new, so all later ones have
	for _, t := range tables {
		// A page that got another kind meanwhile is the newest of its kind.
		if known := p.knownOf(t.kind); known > 0 && !begun[t.kind] {
			if _, err := p.f.ReadAt(b[:pageHead], t.off); err != nil {
				return err
			}
			used := int(min(ne.Uint64(b[8:]), pageSize-pageHead))
			if ne.Uint64(b) == t.kind && ne.Uint64(b[16:]) == t.seq && p.skipped[t.kind]+used <= known {
				p.skipped[t.kind] += used
				continue
			}
			begun[t.kind] = true
		}
		if _, err := p.f.ReadAt(b, t.off); err != nil {
			return err
		}
		if ne.Uint64(b) == kindProgress {
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
	used := min(ne.Uint64(b[8:]), pageSize-pageHead)
	if p.size += int(used); p.size > maxSize {
		return errors.New("the tables are too large")
	}
	p.streams = append(p.streams, stream{ne.Uint64(b), ne.Uint64(b[16:]), ne.Uint64(b[atBefore:]), slices.Clone(b[pageHead : pageHead+used])})
	return nil
}

// slots adds the runs of a page that was read twice. After the records were read, or between
// the two copies, a running writer may have emptied and refilled a slot. Such a run begins
// after these records and is left out.
func (p *pages) slots(b, again []byte, off int64, size int) error {
	ne := binary.NativeEndian
	for at := pageHead; at+slotHead+size <= pageSize; at += slotHead + size {
		h := b[at : at+slotHead]
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
		if ok && len(old.b) >= int(used) {
			continue
		}
		if !ok {
			p.order = append(p.order, k)
		}
		if p.size += int(used); p.size > maxSize {
			return errors.New("the pending repeats are too large")
		}
		p.repeats[k] = run{begin, slices.Clone(b[at+slotHead : at+slotHead+int(used)])}
	}
	return nil
}

// appendRepeats appends a REPEAT record for each run.
func (p *pages) appendRepeats(b []byte) []byte {
	for _, k := range p.order {
		n, whole := 0, 0
		for r := p.repeats[k].b; whole < len(r); n++ {
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
		b = append(b, p.repeats[k].b[:whole]...)
	}
	return b
}

// knownOf returns how many bytes of a table are known.
func (p *pages) knownOf(kind uint64) int {
	switch kind {
	case kindStrings:
		return p.known.Strings
	case kindFrames:
		return p.known.Frames
	case kindBlocks:
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

// cutString returns the text and the length in bytes of the entry at the start of b. The
// length is 0 if the entry is incomplete.
func cutString(b []byte) (text []byte, n int) {
	size, k := binary.Uvarint(b)
	if k <= 0 || size > uint64(len(b)-k) {
		return nil, 0
	}
	n = k + int(size)
	return b[k:n], n
}

// wholeStrings returns the complete entries of a string table and their number.
func wholeStrings(b []byte) ([]byte, uint32) {
	at, count := 0, uint32(0)
	for {
		_, n := cutString(b[at:])
		if n == 0 {
			return b[:at], count
		}
		at, count = at+n, count+1
	}
}

// wholeFrames returns the complete entries of a frame table and their number.
func wholeFrames(b []byte, strings uint32, layout uint32) ([]byte, uint32) {
	fields, opcode := 3, 0
	if layout == uint32(tachyon.CPython315) {
		fields, opcode = 6, 1
	}
	at, count := 0, uint32(0)
	for {
		n := at
		for i := range fields {
			v, k := binary.Uvarint(b[n:])
			if k <= 0 || i < 2 && v >= uint64(strings) {
				return b[:at], count
			}
			n += k
		}
		if n += opcode; n > len(b) {
			return b[:at], count
		}
		at, count = n, count+1
	}
}

// metadata returns all objects except provisional ones that were replaced.
func metadata(b []byte) []string {
	type entry struct {
		provisional bool
		kind, text  string
	}
	var list []entry
	last := map[string]int{} // of each kind, its index in list
	for len(b) > 0 {
		text, n := cutString(b[1:])
		if n == 0 {
			break
		}
		var k struct {
			Kind string `json:"gotach"`
		}
		if json.Unmarshal(text, &k) == nil {
			last[k.Kind] = len(list)
			list = append(list, entry{b[0] == 'P', k.Kind, string(text)})
		}
		b = b[1+n:]
	}
	var out []string
	for i, e := range list {
		if !e.provisional || last[e.kind] == i {
			out = append(out, e.text)
		}
	}
	return out
}
