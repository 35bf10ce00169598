package dcpi

import (
	"cmp"
	"debug/elf"
	"debug/gosym"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/files"
	"github.com/gotach/profiler/internal/profile"
)

// Image is an executable or shared library in which a profile counts addresses.
// Only ELF files are understood.
type Image struct {
	Path      string
	BuildID   string // Go's, else the GNU one in hex, else ""
	TextStart uint64 // link-time address of .text
	TextSize  uint64
	ModTime   time.Time

	gnu   string       // the GNU build ID
	table *gosym.Table // nil: not a Go program
	funcs []elf.Symbol // otherwise: its functions, ascending
	inl   *inlines     // nil: the executable has no DWARF
}

// OpenImage reads an executable's identity and symbols.
func OpenImage(path string) (*Image, error) { return openImage(path, withInlines) }

// How much of an executable is read.
const (
	identity    = iota // what tells it from others
	withTable          // and its functions
	withInlines        // and where calls were inlined
)

// openImage reads an executable's identity and, as depth says, its symbols.
func openImage(path string, depth int) (*Image, error) {
	f, fi, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e, err := openELF(f, fi.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: not an ELF executable, no procedures can be found: %w", path, err)
	}
	m := &Image{Path: path, ModTime: fi.ModTime()}
	text := e.Section(".text")
	if text == nil {
		return nil, fmt.Errorf("%s: no .text section", path)
	}
	m.TextStart, m.TextSize = text.Addr, text.Size
	m.gnu = hex.EncodeToString(note(e, ".note.gnu.build-id"))
	m.BuildID = cmp.Or(string(note(e, ".note.go.buildid")), m.gnu)

	if depth >= withTable {
		if m.table = goTable(e, text.Addr); m.table == nil {
			m.funcs = functions(e)
		}
	}
	if depth >= withInlines {
		if d, err := e.DWARF(); err == nil {
			m.inl = newInlines(d)
		}
	}
	return m, nil
}

// maxRatio is how many times larger than its file the sections of an executable may be. Linkers
// compress DWARF to a third.
const maxRatio = 20

// openELF reads the list of sections of a file of a size. Compressed sections, and several of the
// same bytes, could take any memory.
func openELF(r io.ReaderAt, size int64) (*elf.File, error) {
	e, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	left := maxRatio * uint64(size)
	for _, s := range e.Sections {
		if s.Type == elf.SHT_NOBITS {
			continue
		}
		if s.Size > left {
			return nil, fmt.Errorf("its sections are much larger than it, as %s of %d bytes", s.Name, s.Size)
		}
		left -= s.Size
	}
	return e, nil
}

// note returns the description of the first note in a section.
func note(e *elf.File, section string) []byte {
	s := e.Section(section)
	if s == nil {
		return nil
	}
	b, err := s.Data()
	if err != nil || len(b) < 12 {
		return nil
	}
	name, desc := uint64(e.ByteOrder.Uint32(b)), uint64(e.ByteOrder.Uint32(b[4:]))
	start := 12 + (name+3)&^3
	if start+desc > uint64(len(b)) {
		return nil
	}
	return b[start : start+desc]
}

// goTable reads the table by which Go programs find their own functions. Stripped
// programs have it too.
func goTable(e *elf.File, text uint64) *gosym.Table {
	// Position-independent executables have it in a section that can be relocated.
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
		s := e.Section(name)
		if s == nil {
			continue
		}
		b, err := s.Data()
		if err != nil {
			return nil
		}
		t, err := gosym.NewTable(nil, gosym.NewLineTable(b, text))
		if err != nil {
			return nil
		}
		return t
	}
	return nil
}

func functions(e *elf.File) []elf.Symbol {
	all, _ := e.Symbols()
	dynamic, _ := e.DynamicSymbols()
	all = append(all, dynamic...)
	all = slices.DeleteFunc(all, func(s elf.Symbol) bool {
		return elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Value == 0
	})
	slices.SortStableFunc(all, func(a, b elf.Symbol) int { return cmp.Compare(a.Value, b.Value) })
	return all
}

// is reports whether the image has the build ID.
func (m *Image) is(id string) bool { return id != "" && (id == m.BuildID || id == m.gnu) }

// Frame returns the function that the link-time address lies in, named as in
// [runtime.Frame], and the line, 0 if unknown. Where a call was inlined it is the
// function that was called, as DWARF has it. A stripped executable has only the
// function around that, beside the right line. Frame must not be called from two
// goroutines at once.
func (m *Image) Frame(addr uint64) (f profile.Frame, ok bool) {
	if f, ok = m.outer(addr); !ok || m.inl == nil {
		return f, ok
	}
	if name := m.inl.function(addr); name != "" {
		f.Func = printed(name)
	}
	return f, true
}

// printed returns a name as the runtime prints it, without type arguments.
func printed(name string) string {
	i, j := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']')
	if i < 0 || j <= i {
		return name
	}
	return name[:i] + "[...]" + name[j+1:]
}

// outer returns the function whose code the address is part of.
func (m *Image) outer(addr uint64) (f profile.Frame, ok bool) {
	if m.table != nil {
		file, line, fn := m.table.PCToLine(addr)
		if fn == nil {
			return f, false
		}
		return profile.Frame{Func: printed(fn.Name), File: file, Line: int32(line)}, true
	}
	i, found := slices.BinarySearchFunc(m.funcs, addr, func(s elf.Symbol, a uint64) int { return cmp.Compare(s.Value, a) })
	if !found {
		i--
	}
	if i < 0 || m.funcs[i].Size > 0 && addr >= m.funcs[i].Value+m.funcs[i].Size {
		return f, false
	}
	return profile.Frame{Func: m.funcs[i].Name}, true
}

// Image opens the profiled executable. It is an error if the file is another one by
// now: that is checked by the build ID in the profile's x-buildid line or, without
// that line, by the address and size of the text section. Addresses looked up in
// another executable would name procedures that never ran.
func (h *Header) Image() (*Image, error) {
	path, ok := h.Value("path")
	if !ok {
		return nil, errors.New("the profile names no executable, so its addresses have no procedure names")
	}
	m, err := OpenImage(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the executable %s is gone, so its addresses have no procedure names", path)
	} else if err != nil {
		return nil, fmt.Errorf("cannot read the executable: %w", err)
	}
	if id, ok := h.Value("x-buildid"); ok {
		if !m.is(id) {
			return nil, fmt.Errorf("%s is another executable than the one profiled: its build ID is %q, the profile's %q", path, m.BuildID, id)
		}
		return m, nil
	}
	if start, size := h.TextStart(), h.TextSize(); start != m.TextStart || size != m.TextSize {
		return nil, fmt.Errorf("%s is another executable than the one profiled: its text is %d bytes from %#x, the profile's %d from %#x",
			path, m.TextSize, m.TextStart, size, start)
	}
	return m, nil
}
