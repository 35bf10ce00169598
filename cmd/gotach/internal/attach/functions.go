//go:build linux && (amd64 || arm64)

package attach

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"unsafe"

	"github.com/gotach/profiler/internal/analyze/instant"
	"github.com/gotach/profiler/internal/goruntime"
)

// functions are the program's own tables of functions (pclntab), of Go 1.18 and later. They are in its file even if that is stripped.
type functions struct {
	data                             []byte
	mem                              *memory
	layout                           *goruntime.Layout
	minor                            int
	text, etext, gofunc              uint64 // addresses
	code                             goruntime.Code
	names, units, files, pctab, funs []byte
	cache                            map[uint64]*place
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

func (t *functions) init() error {
	d := t.data
	if len(d) < 72 || d[0]&0xfe != 0xf0 || d[1] != 0xff || d[6] != goruntime.PCQuantum || d[7] != 8 {
		return errors.New("its table of functions has an unknown format")
	}
	part := func(at int) []byte {
		if off := le.Uint64(d[at:]); off < uint64(len(d)) {
			return d[off:]
		}
		return nil
	}
	t.names, t.units, t.files, t.pctab, t.funs = part(32), part(40), part(48), part(56), part(64)
	n := le.Uint64(d[8:])
	if n < 1 || n > uint64(len(t.funs))/8 || uint64(len(t.funs)) < n*8+4 || t.names == nil || t.units == nil || t.files == nil || t.pctab == nil {
		return errors.New("its table of functions is damaged")
	}
	t.code = goruntime.CodeAt(uintptr(t.text), uintptr(t.etext), spanOf(t.pctab), spanOf(t.funs), uintptr(n))
	t.cache = map[uint64]*place{}
	return nil
}

// address returns that of bytes in this process.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func spanOf(b []byte) goruntime.Span {
	return goruntime.Span{Lo: address(b), Hi: address(b) + uintptr(len(b))}
}

// at returns the place of a return address. For the address of the instruction at which a function begins it is that.
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

// text returns the name at an offset, "" if it does not end.
func text(table []byte, at int32) string {
	if at < 0 || int(at) >= len(table) {
		return "?"
	}
	table = table[at:]
	table = table[:min(len(table), maxText)]
	return string(table[:max(bytes.IndexByte(table, 0), 0)])
}

// line returns file and line of an address in a function, whose runtime._func and entry are given.
func (t *functions) line(f []byte, entry, pc uintptr) (file string, line int32) {
	line, _ = t.code.Value(le.Uint32(f[24:]), entry, pc)
	if n, ok := t.code.Value(le.Uint32(f[20:]), entry, pc); ok && n >= 0 {
		unit := uint64(le.Uint32(f[t.layout.FuncNPCData+4:])) + uint64(n)
		if unit*4+4 <= uint64(len(t.units)) {
			if at := le.Uint32(t.units[unit*4:]); at != ^uint32(0) {
				file = text(t.files, int32(at))
			}
		}
	}
	return file, line
}

// Numbers of tables in runtime._func.
const (
	pcdataInlTree   = 2
	funcdataInlTree = 3
)

func (t *functions) find(pc uint64) *place {
	p, l := &place{}, t.layout
	call := uintptr(pc)
	at, entry := t.code.Find(&l.Offsets, call)
	if at == 0 || call != entry {
		call--
		if at, entry = t.code.Find(&l.Offsets, call); at == 0 {
			return p
		}
	}
	f := t.funs[at-address(t.funs):]
	p.ok, p.entry, p.top = true, uint64(entry), f[l.FuncFlag]&1 != 0
	p.writesSP = f[l.FuncFlag]&goruntime.FuncFlagSPWrite != 0
	p.name = shown(text(t.names, int32(le.Uint32(f[4:]))))
	p.leaves = p.name == "runtime.mcall" || p.name == "runtime.morestack" || p.name == "runtime.schedule"
	if delta, ok := t.code.Value(le.Uint32(f[l.FuncPCSP:]), entry, call); ok && delta >= 0 {
		p.delta = uint64(delta)
	} else if !p.top {
		p.ok = false
	}
	tables, data := int(le.Uint32(f[l.FuncNPCData:])), int(f[l.FuncNFuncData])
	first := int(l.FuncNFuncData) + 1
	var tree uint64
	if end := first + (tables+funcdataInlTree+1)*4; tables > pcdataInlTree && data > funcdataInlTree && end <= len(f) && t.gofunc != 0 {
		if off := le.Uint32(f[end-4:]); off != ^uint32(0) {
			tree = t.gofunc + uint64(off)
		}
	}
	size, nameAt, kindAt := uint64(16), 4, 0
	if t.minor < 20 {
		size, nameAt, kindAt = 20, 12, 2
	}
	for range 256 {
		file, line := t.line(f, entry, call)
		var inlined []byte
		if tree != 0 {
			if i, ok := t.code.Value(le.Uint32(f[first+pcdataInlTree*4:]), entry, call); ok && i >= 0 {
				if b, err := t.mem.bytes(tree+uint64(i)*size, size); err == nil {
					inlined = b
				}
			}
		}
		if inlined == nil {
			p.add(p.name, file, line, f[l.FuncFlag-1] == t.wrapper())
			break
		}
		p.add(shown(text(t.names, int32(le.Uint32(inlined[nameAt:])))), file, line, inlined[kindAt] == t.wrapper())
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

// wrapper is the number (abi.FuncIDWrapper) of functions that the compiler made only to call another one. Tracebacks leave them out.
func (t *functions) wrapper() byte {
	switch {
	case t.minor < 22:
		return 21
	case t.minor < 25:
		return 22
	}
	return 23
}

// arm64 says where return addresses are: at the stack pointer.
const arm64 = runtime.GOARCH == "arm64"
