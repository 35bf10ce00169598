// Package unfinished reads the journal of an unfinished profile: the part of the profile that its
// file does not have. Package journal, which writes it, has the layout.
package unfinished

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/gotach/profiler/internal/files"
	"github.com/gotach/profiler/internal/infile"
	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// maxFile is the size in bytes of the largest journal that is read. A sparse file of
// terabytes takes no space on the disk, but much time to read.
const maxFile = 8 << 30

// ErrNotJournal is the error for a file that is not a complete journal.
var ErrNotJournal = errors.New("not a journal, or an incomplete one")

// A State is the content of a journal: the part of an unfinished profile that is not in the
// profile's file.
type State struct {
	journal.Head
	Point    journal.Point
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
	Lost     bool   // samples before the latest progress are missing
}

// errMoved is the error if the writer emptied the buffer while the journal was read.
var errMoved = errors.New("the writer changed the journal while it was read, try again")

// Known is the part of a journal that was read before. It only grows while a writer uses the
// journal.
type Known struct {
	Strings, Frames, Blocks int    // bytes of whole entries
	NStrings                uint32 // number of the strings
	Records                 uint64 // bytes of records in the blocks
}

// Load reads the journal of the profile at path. If a writer is using the journal, the State
// has the samples of each thread up to some moment during the call.
func Load(path string) (*State, error) { return LoadNew(path, Known{}) }

// LoadNew is Load, but Strings, NStrings, Frames, NFrames and Blocks have only what is new. Pages
// that are known are not read. The error is ErrLess if the journal has less than what is known.
func LoadNew(path string, known Known) (*State, error) {
	f, fi, err := files.Open(path + journal.Suffix)
	if err != nil {
		return nil, err
	}
	return readFile(f, fi, known)
}

// LoadIn is Load for a profile below root, which others may write to; see [infile.OpenIn].
func LoadIn(root *os.Root, name string) (*State, error) {
	f, fi, err := infile.OpenIn(root, name+journal.Suffix, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return readFile(f, fi, Known{})
}

// readFile reads a journal and closes it.
func readFile(f *os.File, fi os.FileInfo, known Known) (_ *State, err error) {
	defer f.Close()
	if fi.Size() < journal.ChunkSize || fi.Size() > maxFile {
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

func read(f io.ReaderAt, known Known) (*State, error) {
	ne := binary.NativeEndian
	b := make([]byte, journal.PageSize)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	if ne.Uint64(b) != journal.Magic {
		return nil, ErrNotJournal
	}
	if v := ne.Uint32(b[journal.AtVersion:]); v != journal.Version {
		return nil, fmt.Errorf("unknown journal version %d, want %d", v, journal.Version)
	}
	w := ne.Uint64(b[journal.AtCommit:])
	s := &State{
		Head: journal.Head{
			Layout: ne.Uint32(b[journal.AtLayout:]), Start: ne.Uint64(b[journal.AtStart:]), Interval: ne.Uint64(b[journal.AtInterval:]),
			Compression: ne.Uint32(b[journal.AtCompression:]), Config: ne.Uint32(b[journal.AtConfig:]),
			Python: [3]uint8(b[journal.AtPython:]),
			Stats:  slices.Clone(b[journal.AtStats : journal.AtStats+min(64, int(b[journal.AtStatsSize]))]),
		},
		Point: readPoint(b[journal.AtPoints+w>>journal.GenShift&1*journal.PointSize:]),
	}
	if p, ok := durable(b); ok && [journal.BootSize]byte(b[journal.AtBoot:]) != journal.Boot() {
		// The machine was rebooted. Bytes that were not synced may be lost or old.
		s.Point, s.Lost = p, true
		tables := pages{f: f, noSlots: true, known: known}
		if err := tables.read(); err != nil {
			return nil, err
		}
		return s, s.fill(&tables)
	}
	length, slot := w&journal.LengthMask, w>>journal.LengthBits&journal.SlotMask
	if length > journal.BufferSize || s.Point.Offset < tachyon.HeaderSize {
		return nil, fmt.Errorf("damaged control page: %d bytes in the buffer, profile offset %d", length, s.Point.Offset)
	}
	s.Records = make([]byte, length)
	if _, err := f.ReadAt(s.Records, journal.PageSize); err != nil {
		return nil, err
	}
	p := pages{f: f, end: s.Point.Raw + length, moved: slot, known: known}
	if err := p.read(); err != nil {
		return nil, err
	}
	if _, err := f.ReadAt(b[:8], journal.AtCommit); err != nil {
		return nil, err
	}
	if ne.Uint64(b)>>journal.GenShift != w>>journal.GenShift {
		return nil, errMoved
	}
	s.Records = p.appendRepeats(s.Records)
	s.Pending = len(s.Records) - int(length)
	return s, s.fill(&p)
}

func (s *State) fill(p *pages) error {
	strings, e1 := p.fresh(journal.KindStrings, p.known.Strings)
	frames, e2 := p.fresh(journal.KindFrames, p.known.Frames)
	blocks, e3 := p.fresh(journal.KindBlocks, p.known.Blocks)
	if err := cmp.Or(e1, e2, e3); err != nil {
		return err
	}
	s.Strings, s.NStrings = wholeStrings(strings)
	s.Frames, s.NFrames = wholeFrames(frames, p.known.NStrings+s.NStrings, s.Layout)
	s.Metadata = metadata(p.stream(journal.KindMetadata))
	var records uint64
	s.Blocks, records = wholeBlocks(blocks)
	s.Alone = p.alone(p.known.Records + records)
	s.Progress = p.progress
	return nil
}

func readPoint(b []byte) journal.Point {
	ne := binary.NativeEndian
	return journal.Point{
		Offset: int64(ne.Uint64(b)), Samples: ne.Uint64(b[8:]), Raw: ne.Uint64(b[16:]),
		Threads: ne.Uint32(b[24:]), CRC: ne.Uint32(b[28:]), Open: ne.Uint32(b[32:]) == 1,
	}
}

// durable returns the latest durable point in a control page.
func durable(b []byte) (p journal.Point, ok bool) {
	latest := uint64(0)
	for n := range 2 {
		d := b[journal.AtDurable+n*journal.DurableSize:][:journal.DurableSize]
		seq := binary.NativeEndian.Uint64(d[48:])
		if seq > latest && binary.NativeEndian.Uint32(d[56:]) == wire.CRC(0, d[:56]) {
			p, ok, latest = readPoint(d), true, seq
		}
	}
	return p, ok
}
