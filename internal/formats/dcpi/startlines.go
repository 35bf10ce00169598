package dcpi

import (
	"bytes"
	"debug/dwarf"
	"encoding/binary"
	"fmt"

	"github.com/gotach/profiler/internal/files"
)

// StartLines returns the lines at which the functions of a Go executable begin, by the functions'
// names. It is an error if the executable has not the build ID; "" is any.
func StartLines(path, buildID string) (map[string]int32, error) {
	m, err := openImage(path, identity)
	if err != nil {
		return nil, err
	}
	if buildID != "" && !m.is(buildID) {
		return nil, fmt.Errorf("%s is not the executable that was profiled: its build ID is another one", path)
	}
	f, fi, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e, err := openELF(f, fi.Size())
	if err != nil {
		return nil, err
	}
	lines := map[string]int32{}
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
		if s := e.Section(name); s != nil {
			if b, err := s.Data(); err == nil {
				tableLines(lines, b, e.ByteOrder)
			}
		}
	}
	// Functions that are inlined everywhere are in the DWARF only.
	if d, err := e.DWARF(); err == nil {
		dwarfLines(lines, d)
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s has no table of Go functions", path)
	}
	return lines, nil
}

// Offsets in the table by which Go programs find their functions, since Go 1.20. All words have the
// size of a pointer, 8 bytes.
const (
	tableMagic     = 0xfffffff1
	tableCount     = 8
	tableNames     = 32
	tableFunctions = 64
	tableEnd       = 72

	functionName      = 4  // offset of its name among the names
	functionStartLine = 36 // int32
)

// tableLines adds the lines of a table.
func tableLines(lines map[string]int32, b []byte, order binary.ByteOrder) {
	if len(b) < tableEnd || order.Uint32(b) != tableMagic || b[7] != 8 {
		return
	}
	count, names, functions := order.Uint64(b[tableCount:]), order.Uint64(b[tableNames:]), order.Uint64(b[tableFunctions:])
	size := uint64(len(b))
	if names > size || functions > size || count > (size-functions)/8 {
		return
	}
	for i := range count {
		at := functions + uint64(order.Uint32(b[functions+8*i+4:]))
		if at+functionStartLine+4 > size {
			return
		}
		name := names + uint64(order.Uint32(b[at+functionName:]))
		if name > size {
			return
		}
		text := b[name:]
		end := bytes.IndexByte(text, 0)
		line := int32(order.Uint32(b[at+functionStartLine:]))
		if end > 0 && line > 0 {
			lines[string(text[:end])] = line
		}
	}
}

// dwarfLines adds the lines of the functions that are not known yet.
func dwarfLines(lines map[string]int32, d *dwarf.Data) {
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil || e == nil {
			return
		}
		if e.Tag != dwarf.TagSubprogram {
			if e.Tag != dwarf.TagCompileUnit {
				r.SkipChildren()
			}
			continue
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		name = printed(name)
		line, _ := e.Val(dwarf.AttrDeclLine).(int64)
		if _, known := lines[name]; !known && name != "" && line > 0 && line < 1<<31 {
			lines[name] = int32(line)
		}
		r.SkipChildren()
	}
}
