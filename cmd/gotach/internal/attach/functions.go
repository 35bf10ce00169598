//go:build linux && (amd64 || arm64)

package attach

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/gotach/profiler/internal/analyze/instant"
	"github.com/gotach/profiler/internal/goruntime"
	"golang.org/x/sys/unix"
)

// functions are the program's own tables of functions (pclntab), of Go 1.18 and later. They are in
// its memory even if its file is stripped.
type functions struct {
	mem     *memory
	layout  *goruntime.Layout
	minor   int
	modules []*module
	next    uint64 // where the address of the next module will be
	size    uint64 // of all tables
	cache   map[uint64]*place
}

// A module is the code of the program, or of a plugin.
type module struct {
	text, etext, gofunc              uint64 // addresses
	code                             goruntime.Code
	names, units, files, pctab, funs []byte
}

// A Frame is a call.
type Frame = instant.Frame

// A place is an address in code.
type place struct {
	frames   []Frame // innermost first; of inlined calls there are several
	wraps    []bool  // which of them are wrappers
	entry    uint64
	name     string // of the function that has the code; frames may have further ones, inlined into it
	delta    uint64 // from the stack pointer to the return address
	top      bool   // a stack ends here
	writesSP bool   // it may go on on another stack
	leaves   bool   // what it calls is the scheduler's, on the system stack
	ok       bool   // it is code
}

// maxPlaces bounds the memory for addresses.
const maxPlaces = 1 << 18

// maxTables bounds the tables of all modules, in bytes.
const maxTables = 512 << 20

// add adds the module whose runtime.moduledata is at an address.
func (t *functions) add(at uint64) error {
	l := t.layout
	b, err := t.mem.bytes(at, uint64(l.ModNext))
	if err != nil {
		return err
	}
	word := func(off uintptr) uint64 { return le.Uint64(b[off:]) }
	m := &module{text: word(l.ModText), etext: word(l.ModEText), gofunc: word(l.ModGoFunc)}
	tables, size := word(0), word(l.ModPCLNTable)+word(l.ModPCLNTable+8)-word(0)
	if t.size += size; size > maxTables || t.size > maxTables {
		return fmt.Errorf("its tables of functions have %d bytes", size)
	}
	data := make([]byte, size)
	err = cmp.Or(t.mem.read(tables, data), m.init(data))
	if err == nil {
		t.modules, t.next = append(t.modules, m), at+uint64(l.ModNext)
	}
	return err
}

// module returns the one that has the code at an address, nil if there is none. It adds those that
// come next in the runtime's list: a plugin may have been loaded just now.
func (t *functions) module(pc uint64) *module {
	for i := 0; ; i++ {
		if i == len(t.modules) {
			next, _ := t.mem.word(t.next) // nothing is at 0
			if next == 0 || t.add(next) != nil {
				return nil
			}
		}
		if m := t.modules[i]; pc >= m.text && pc < m.etext {
			return m
		}
	}
}

func (m *module) init(d []byte) error {
	if len(d) < 72 || d[0]&0xfe != 0xf0 || d[1] != 0xff || d[6] != goruntime.PCQuantum || d[7] != 8 {
		return errors.New("its table of functions has an unknown format")
	}
	part := func(at int) []byte {
		if off := le.Uint64(d[at:]); off < uint64(len(d)) {
			return d[off:]
		}
		return nil
	}
	m.names, m.units, m.files, m.pctab, m.funs = part(32), part(40), part(48), part(56), part(64)
	n := le.Uint64(d[8:])
	if n < 1 || n > uint64(len(m.funs))/8 || uint64(len(m.funs)) < n*8+4 || m.names == nil || m.units == nil || m.files == nil || m.pctab == nil {
		return errors.New("its table of functions is damaged")
	}
	m.code = goruntime.CodeAt(uintptr(m.text), uintptr(m.etext), spanOf(m.pctab), spanOf(m.funs), uintptr(n))
	return nil
}

// address returns that of bytes in this process.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func spanOf(b []byte) goruntime.Span {
	return goruntime.Span{Lo: address(b), Hi: address(b) + uintptr(len(b))}
}

// at returns the place of a return address. For the address of the instruction at which a function
// begins it is that.
func (t *functions) at(pc uint64) *place {
	p := t.cache[pc]
	if p == nil {
		if len(t.cache) >= maxPlaces {
			clear(t.cache)
		}
		p = t.find(pc)
		t.cache[pc] = p
	}
	return p
}

// maxText bounds a name, in bytes.
const maxText = 1 << 16

// text returns the name at an offset.
func text(table []byte, at int32) string {
	if at < 0 || int(at) >= len(table) {
		return "?"
	}
	table = table[at:]
	return unix.ByteSliceToString(table[:min(len(table), maxText)])
}

// line returns file and line of an address in a function, whose runtime._func and entry are given.
func (m *module) line(l *goruntime.Layout, f []byte, entry, pc uintptr) (file string, line int32) {
	line, _ = m.code.Value(le.Uint32(f[24:]), entry, pc)
	n, ok := m.code.Value(le.Uint32(f[20:]), entry, pc)
	at := (uint64(le.Uint32(f[l.FuncNPCData+4:])) + uint64(n)) * 4
	if ok && n >= 0 && at+4 <= uint64(len(m.units)) && le.Uint32(m.units[at:]) != ^uint32(0) {
		file = text(m.files, int32(le.Uint32(m.units[at:])))
	}
	return file, line
}

func (t *functions) find(pc uint64) *place {
	p, l := &place{}, t.layout
	m := cmp.Or(t.module(pc), t.module(pc-1))
	if m == nil {
		return p
	}
	call := uintptr(pc)
	at, entry := m.code.Find(&l.Offsets, call)
	if at == 0 || call != entry {
		call--
		if at, entry = m.code.Find(&l.Offsets, call); at == 0 {
			return p
		}
	}
	f := m.funs[at-address(m.funs):]
	p.ok, p.entry, p.top = true, uint64(entry), f[l.FuncFlag]&1 != 0
	p.writesSP = f[l.FuncFlag]&goruntime.FuncFlagSPWrite != 0
	p.name = shown(text(m.names, int32(le.Uint32(f[4:]))))
	p.leaves = p.name == "runtime.mcall" || p.name == "runtime.morestack" || p.name == "runtime.schedule"
	if delta, ok := m.code.Value(le.Uint32(f[l.FuncPCSP:]), entry, call); ok && delta >= 0 {
		p.delta = uint64(delta)
	} else if !p.top {
		p.ok = false
	}
	tree, indices, ok := m.code.InlineTree(&l.Offsets, at)
	size, nameAt, kindAt := uint64(16), 4, 0
	if t.minor < 20 {
		size, nameAt, kindAt = 20, 12, 2
	}
	for range 256 {
		file, line := m.line(l, f, entry, call)
		var inlined []byte
		if i, in := m.code.Value(indices, entry, call); ok && m.gofunc != 0 && in && i >= 0 {
			if b, err := t.mem.bytes(m.gofunc+uint64(tree)+uint64(i)*size, size); err == nil {
				inlined = b
			}
		}
		if inlined == nil {
			p.add(p.name, file, line, f[l.FuncFlag-1] == wrappers[t.minor])
			break
		}
		p.add(shown(text(m.names, int32(le.Uint32(inlined[nameAt:])))), file, line, inlined[kindAt] == wrappers[t.minor])
		call = entry + uintptr(le.Uint32(inlined[l.InlParentPC:]))
	}
	return p
}

func (p *place) add(name, file string, line int32, wraps bool) {
	p.frames, p.wraps = append(p.frames, Frame{Func: name, File: file, Line: line}), append(p.wraps, wraps)
}

// shown returns a name as the runtime shows it: without type arguments.
func shown(name string) string {
	i, j := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']')
	if i < 0 || j <= i {
		return name
	}
	return name[:i] + "[...]" + name[j+1:]
}

// wrappers are the numbers (abi.FuncIDWrapper), by version of Go, of functions that the compiler
// made only to call another one. Tracebacks leave them out.
var wrappers = [...]byte{19: 21, 20: 21, 21: 21, 22: 22, 23: 22, 24: 22, 25: 23, 26: 23, 27: 23}

// arm64 says where return addresses are: at the stack pointer.
const arm64 = runtime.GOARCH == "arm64"
