package session

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/gotach/profiler/tachyon"
)

// An executable is what the metadata say of the running program's file: readers find its symbols by
// it. All fields except the path are zero if that file is not ELF.
type executable struct {
	path                string
	buildID             string // GNU's in hex, else Go's own
	textStart, textSize uint64 // link-time address and size of .text, in bytes
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

// Limits on how much of a file is read. Go's linker makes about 30 sections and notes of
// about 100 bytes.
const (
	maxSections = 4096
	maxNote     = 4096
	longestName = uint64(len(".note.gnu.build-id")) // of the sections that readELF looks for
)

// An elfFile has the small part of debug/elf that is needed here. The package debug/elf
// itself would add 0.1 MB to every program, for DWARF and two decompressors.
type elfFile struct {
	r     io.ReaderAt
	order binary.ByteOrder
	wide  bool // 64 bits
}

// An elfSection is one entry of the section table.
type elfSection struct {
	name               uint32 // offset in the section of names
	kind, link         uint32
	addr, offset, size uint64
}

const noBits = 8 // the kind of a section without bytes in the file (SHT_NOBITS)

// BuildID returns GNU's build ID of an executable in hex, else Go's own, "" if it has none.
func BuildID(r io.ReaderAt) string { return readELF(r).buildID }

// readELF reads the build ID and the bounds of .text. A field stays zero if its data are
// missing, damaged or larger than the limits above.
func readELF(r io.ReaderAt) (e executable) {
	f, sections, names := openELF(r)
	var gnu, golang []byte
	for _, s := range sections {
		switch f.text(names, s.name, longestName+1) {
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

// openELF reads the header and the section table. names is the section that has the names of
// sections. There are no sections if header or table is missing or damaged.
func openELF(r io.ReaderAt) (f elfFile, sections []elfSection, names elfSection) {
	head := make([]byte, 64) // the header of a 32-bit file has 52 bytes
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
			s.link = f.order.Uint32(b[40:])
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

// text returns the text at a place of a section of names. It returns "" if the text is missing, or
// has more than most bytes with the zero byte at its end.
func (f *elfFile) text(names elfSection, at uint32, most uint64) string {
	if uint64(at) >= names.size || names.kind == noBits {
		return ""
	}
	text, _, ended := strings.Cut(string(f.read(names.offset+uint64(at), min(most, names.size-uint64(at)))), "\x00")
	if !ended {
		return ""
	}
	return text
}

// note returns the description in a note section. A note has the size of the name, the size
// of the description and a type, 4 bytes each. The name and the description follow, padded
// to 4 bytes.
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

// Limits on what is read of the symbol table. A program of 200 MB has about 8 MB of symbols.
const (
	maxSymbolTable = 64 << 20
	maxSymbolName  = 512
	maxVariables   = 4096 // names read in one search
)

const (
	symbolTable = 2  // the kind of a section with symbols (SHT_SYMTAB)
	symbolSize  = 24 // bytes of a symbol of 64 bits
	dataSymbol  = 1  // the type of a symbol of a variable (STT_OBJECT)
)

var (
	errNoSymbols  = errors.New("the executable has no symbol table")
	errOtherFile  = errors.New("the symbol table is not that of the running program")
	errBigSymbols = errors.New("the executable's symbol table is too large to be read while the program runs")
)

// mark is a variable whose address is known. A symbol table that does not have it at this address
// belongs to another program.
var mark byte

const markName = "github.com/gotach/profiler/internal/session.mark"

// A Variable is the place of a link-time address in a variable of the program. The name is empty if
// the address is in no variable.
type Variable struct {
	Name   string
	Offset uint64 // from the start of the variable
}

// findVariables returns the variables that contain objects of the running program. All objects must
// be static.
//
// It reads the symbol table from the executable in small pieces, so it takes little memory. For a
// program with 20,000 symbols it takes about a millisecond.
func findVariables(objects []tachyon.Object) (map[uint64]Variable, error) {
	exe, err := os.Open("/proc/self/exe") // the right file, even if another one has its path now
	if err != nil {
		return nil, err
	}
	defer exe.Close()
	bias := objects[0].Addr - objects[0].Static
	markAt := uint64(reflect.ValueOf(&mark).Pointer()) - bias
	addrs := []uint64{markAt}
	for i := range objects {
		addrs = append(addrs, objects[i].Static)
	}
	found, err := Variables(exe, addrs)
	if err == nil && !strings.HasSuffix(found[markAt].Name, markName) { // a vendored package has a prefix
		err = errOtherFile
	}
	return found, err
}

// Variables returns the variables that contain the given link-time addresses.
func Variables(r io.ReaderAt, addrs []uint64) (map[uint64]Variable, error) {
	f, sections, _ := openELF(r)
	i := slices.IndexFunc(sections, func(s elfSection) bool { return s.kind == symbolTable })
	if i < 0 || !f.wide || f.order != binary.LittleEndian || int(sections[i].link) >= len(sections) {
		return nil, errNoSymbols
	}
	table, names := sections[i], sections[sections[i].link]
	if table.size > maxSymbolTable {
		return nil, errBigSymbols
	}
	list := make([]located, len(addrs))
	for i, addr := range addrs {
		list[i].addr = addr
	}
	sort.Slice(list, func(i, j int) bool { return list[i].addr < list[j].addr })
	list = slices.CompactFunc(list, func(a, b located) bool { return a.addr == b.addr })
	if err := locate(r, table, list); err != nil {
		return nil, err
	}
	found, texts := make(map[uint64]Variable, len(list)), map[uint32]string{}
	for i := range list {
		l := &list[i]
		var v Variable
		if l.size > 0 {
			v = Variable{f.symbolName(names, l.name, texts), l.addr - l.start}
		}
		if v.Name == "" {
			v = Variable{}
		}
		found[l.addr] = v
	}
	return found, nil
}

// located is an address and the smallest symbol that contains it.
type located struct {
	addr        uint64
	start, size uint64 // of the symbol; size 0: none
	name        uint32
}

// locate reads the symbols, and sets those of a list in order of addresses.
func locate(r io.ReaderAt, table elfSection, list []located) error {
	lowest, highest := list[0].addr, list[len(list)-1].addr
	buf := make([]byte, 2048*symbolSize)
	for at := uint64(0); at+symbolSize <= table.size; at += uint64(len(buf)) {
		b := buf[:min(uint64(len(buf)), (table.size-at)/symbolSize*symbolSize)]
		if n, err := r.ReadAt(b, int64(table.offset+at)); n < len(b) {
			return err
		}
		for ; len(b) > 0; b = b[symbolSize:] {
			start, size := binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
			if start > highest || size <= lowest-min(start, lowest) || b[4]&15 != dataSymbol {
				continue
			}
			i, _ := slices.BinarySearchFunc(list, start, func(l located, addr uint64) int { return cmp.Compare(l.addr, addr) })
			for ; i < len(list) && list[i].addr-start < size; i++ {
				if l := &list[i]; l.size == 0 || size < l.size {
					l.start, l.size, l.name = start, size, binary.LittleEndian.Uint32(b)
				}
			}
		}
	}
	return nil
}

// symbolName reads a name from a section of names. texts has those that have been read. It returns
// "" if the name is missing or too long.
func (f *elfFile) symbolName(names elfSection, at uint32, texts map[uint32]string) string {
	if text, ok := texts[at]; ok {
		return text
	}
	if len(texts) == maxVariables {
		return ""
	}
	texts[at] = f.text(names, at, maxSymbolName)
	return texts[at]
}
