//go:build linux && (amd64 || arm64)

package attach

import (
	"bytes"
	"errors"
	"runtime"
	"strings"

	"github.com/gotach/profiler/internal/goruntime"
)

// functions are the program's own tables of functions (pclntab), of Go 1.18 and later. They are in its file even if that is stripped.
type functions struct {
	data                             []byte
	mem                              *memory
	layout                           *goruntime.Layout
	minor                            int
	text, etext, gofunc              uint64 // addresses
	quantum                          uint64
	count                            int
	names, units, files, pctab, funs []byte
	cache                            map[uint64]*place
}

// A Frame is a call.
type Frame struct {
	Func, File string
	Line       int32
}

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
	if len(d) < 72 || d[0]&0xfe != 0xf0 || d[1] != 0xff || d[7] != 8 {
		return errors.New("its table of functions has an unknown format")
	}
	t.quantum = uint64(d[6])
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
	t.count = int(n)
	t.cache = map[uint64]*place{}
	return nil
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

// A fun is a runtime._func.
type fun struct {
	b     []byte // it, and what follows
	entry uint64
	t     *functions
}

// function returns the function that has an address.
func (t *functions) function(pc uint64) (fun, bool) {
	if pc < t.text || pc >= t.etext {
		return fun{}, false
	}
	off := pc - t.text
	lo, hi := 0, t.count
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; uint64(le.Uint32(t.funs[mid*8:])) <= off {
			lo = mid
		} else {
			hi = mid
		}
	}
	f := fun{entry: t.text + uint64(le.Uint32(t.funs[lo*8:])), t: t}
	at := uint64(le.Uint32(t.funs[lo*8+4:]))
	if pc < f.entry || at+uint64(t.layout.FuncNFuncData)+1 > uint64(len(t.funs)) {
		return fun{}, false
	}
	f.b = t.funs[at:]
	return f, true
}

// value looks up an address in one of a function's tables.
func (f fun) value(table uint32, pc uint64) (int32, bool) {
	if table == 0 || int(table) >= len(f.t.pctab) {
		return 0, false
	}
	b, at, v := f.t.pctab[table:], f.entry, int32(-1)
	next := func() (n uint32) {
		for shift := 0; len(b) > 0 && shift < 35; shift += 7 {
			c := b[0]
			b = b[1:]
			n |= uint32(c&0x7f) << shift
			if c < 0x80 {
				break
			}
		}
		return n
	}
	for first := true; len(b) > 0; first = false {
		step := next()
		if step == 0 && !first {
			break
		}
		v += int32(step>>1) ^ -int32(step&1)
		if at += uint64(next()) * f.t.quantum; pc < at {
			return v, true
		}
	}
	return 0, false
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

// line returns file and line of an address.
func (f fun) line(pc uint64) (file string, line int32) {
	line, _ = f.value(le.Uint32(f.b[24:]), pc)
	if n, ok := f.value(le.Uint32(f.b[20:]), pc); ok && n >= 0 {
		unit := uint64(le.Uint32(f.b[f.t.layout.FuncNPCData+4:])) + uint64(n)
		if unit*4+4 <= uint64(len(f.t.units)) {
			if at := le.Uint32(f.t.units[unit*4:]); at != ^uint32(0) {
				file = text(f.t.files, int32(at))
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
	p := &place{}
	f, ok := t.function(pc)
	call := pc
	if !ok || pc != f.entry {
		call = pc - 1
		if f, ok = t.function(call); !ok {
			return p
		}
	}
	l := t.layout
	p.ok, p.entry, p.top = true, f.entry, f.b[l.FuncFlag]&1 != 0
	p.writesSP = f.b[l.FuncFlag]&goruntime.FuncFlagSPWrite != 0
	p.name = shown(text(t.names, int32(le.Uint32(f.b[4:]))))
	p.leaves = p.name == "runtime.mcall" || p.name == "runtime.morestack" || p.name == "runtime.schedule"
	if delta, ok := f.value(le.Uint32(f.b[l.FuncPCSP:]), call); ok && delta >= 0 {
		p.delta = uint64(delta)
	} else if !p.top {
		p.ok = false
	}
	tables, data := int(le.Uint32(f.b[l.FuncNPCData:])), int(f.b[l.FuncNFuncData])
	first := int(l.FuncNFuncData) + 1
	var tree uint64
	if end := first + (tables+funcdataInlTree+1)*4; tables > pcdataInlTree && data > funcdataInlTree && end <= len(f.b) && t.gofunc != 0 {
		if off := le.Uint32(f.b[end-4:]); off != ^uint32(0) {
			tree = t.gofunc + uint64(off)
		}
	}
	size, nameAt, kindAt := uint64(16), 4, 0
	if t.minor < 20 {
		size, nameAt, kindAt = 20, 12, 2
	}
	for range 256 {
		file, line := f.line(call)
		i, ok := int32(-1), false
		if tree != 0 {
			i, ok = f.value(le.Uint32(f.b[first+pcdataInlTree*4:]), call)
		}
		if !ok || i < 0 {
			p.add(p.name, file, line, f.b[l.FuncFlag-1] == t.wrapper())
			break
		}
		b, err := t.mem.bytes(tree+uint64(i)*size, size)
		if err != nil {
			p.add(p.name, file, line, f.b[l.FuncFlag-1] == t.wrapper())
			break
		}
		p.add(shown(text(t.names, int32(le.Uint32(b[nameAt:])))), file, line, b[kindAt] == t.wrapper())
		call = f.entry + uint64(le.Uint32(b[l.InlParentPC:]))
	}
	return p
}

func (p *place) add(name, file string, line int32, wraps bool) {
	p.frames, p.wraps = append(p.frames, Frame{name, file, line}), append(p.wraps, wraps)
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
