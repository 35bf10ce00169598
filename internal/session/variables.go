package session

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/gotach/profiler/tachyon"
)

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
