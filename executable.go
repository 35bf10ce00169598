package profiler

import (
	"encoding/binary"
	"encoding/hex"
	"io"
	"os"
	"strings"
)

// executable is what the file of the running program says of itself. All fields
// but the path are zero where that file is not ELF.
type executable struct {
	path                string
	buildID             string // GNU's in hex, else Go's own
	textStart, textSize uint64 // of .text, as linked
}

func readExecutable() (e executable) {
	path, err := os.Executable()
	if err != nil {
		return e
	}
	if f, err := os.Open(path); err == nil {
		defer f.Close()
		e = readELF(f)
	}
	e.path = path
	return e
}

// Bounds on what is read of a file. Go's linker makes some 30 sections, and notes of
// a hundred bytes.
const (
	maxSections = 4096
	maxNote     = 4096
)

// An elfFile is as much of debug/elf as is needed here. That package would add
// 0.1 MB to every program, with DWARF and two decompressors.
type elfFile struct {
	r     io.ReaderAt
	order binary.ByteOrder
	wide  bool // 64 bits
}

// An elfSection is one entry of the section table.
type elfSection struct {
	name               uint32 // where it is in the section of names
	kind               uint32
	addr, offset, size uint64
}

const noBits = 8 // the kind of section that takes no room in the file

// readELF reads the build ID and the bounds of .text. What is missing, damaged or
// larger than the bounds above stays zero.
func readELF(r io.ReaderAt) (e executable) {
	f, sections, names := openELF(r)
	var gnu, golang []byte
	for _, s := range sections {
		switch f.sectionName(names, s) {
		case ".text":
			if e.textSize == 0 {
				e.textStart, e.textSize = s.addr, s.size
			}
		case ".note.gnu.build-id":
			if gnu == nil {
				gnu = f.note(s)
			}
		case ".note.go.buildid":
			if golang == nil {
				golang = f.note(s)
			}
		}
	}
	if e.buildID = hex.EncodeToString(gnu); e.buildID == "" {
		e.buildID = string(golang)
	}
	return e
}

// openELF reads the header and the section table. Without either there are no sections.
func openELF(r io.ReaderAt) (f elfFile, sections []elfSection, names elfSection) {
	head := make([]byte, 64) // of a 32-bit file only 52 are the header
	if n, err := r.ReadAt(head, 0); n < 52 || n < len(head) && err != io.EOF || string(head[:4]) != "\x7fELF" {
		return f, nil, names
	}
	f = elfFile{r: r, order: binary.LittleEndian, wide: head[4] == 2}
	if head[5] == 2 {
		f.order = binary.BigEndian
	}
	table, counts, entry := uint64(f.order.Uint32(head[32:])), head[46:], 40
	if f.wide {
		table, counts, entry = f.order.Uint64(head[40:]), head[58:], 64
	}
	n, index := int(f.order.Uint16(counts[2:])), int(f.order.Uint16(counts[4:]))
	if int(f.order.Uint16(counts)) != entry || n > maxSections || index >= n {
		return f, nil, names
	}
	b := f.read(table, uint64(n*entry))
	for ; len(b) > 0; b = b[entry:] {
		s := elfSection{name: f.order.Uint32(b), kind: f.order.Uint32(b[4:])}
		if f.wide {
			s.addr, s.offset, s.size = f.order.Uint64(b[16:]), f.order.Uint64(b[24:]), f.order.Uint64(b[32:])
		} else {
			s.addr, s.offset, s.size = uint64(f.order.Uint32(b[12:])), uint64(f.order.Uint32(b[16:])), uint64(f.order.Uint32(b[20:]))
		}
		sections = append(sections, s)
	}
	if len(sections) == 0 {
		return f, nil, names
	}
	return f, sections, sections[index]
}

// read returns n bytes at an offset, nil if the file does not have them.
func (f *elfFile) read(offset, n uint64) []byte {
	if offset > 1<<62 {
		return nil
	}
	b := make([]byte, n)
	if got, _ := f.r.ReadAt(b, int64(offset)); got < len(b) {
		return nil
	}
	return b
}

// sectionName returns the beginning of a section's name, long enough to tell those
// that are wanted from others.
func (f *elfFile) sectionName(names, s elfSection) string {
	const enough = uint64(len(".note.gnu.build-id") + 1)
	if uint64(s.name) >= names.size || names.kind == noBits {
		return ""
	}
	name, _, ended := strings.Cut(string(f.read(names.offset+uint64(s.name), min(enough, names.size-uint64(s.name)))), "\x00")
	if !ended {
		return ""
	}
	return name
}

// note returns the description in a note section: the sizes of name and description
// and a type, 4 bytes each, then the two, padded to 4 bytes.
func (f *elfFile) note(s elfSection) []byte {
	if s.size < 12 || s.size > maxNote || s.kind == noBits {
		return nil
	}
	b := f.read(s.offset, s.size)
	if b == nil {
		return nil
	}
	nameSize, size := uint64(f.order.Uint32(b)), uint64(f.order.Uint32(b[4:]))
	from := 12 + (nameSize+3)&^3
	if from+size > uint64(len(b)) {
		return nil
	}
	return b[from : from+size]
}
