//go:build linux && (amd64 || arm64)

package goruntime

import "github.com/gotach/profiler/internal/mem"

// Span is a part of memory, from Lo to below Hi.
type Span struct{ Lo, Hi uintptr }

// Code has the bounds of a module's code and of its tables. The handler relies on the order of
// Text and Etext.
type Code struct {
	Text, Etext    uintptr
	pctab, pclntab Span
	ftab           uintptr // pairs of 32 bits: a function's offset in text, and in pclntab
	funcs          uintptr // number of functions in ftab
}

// CodeAt returns code of another process, given the bounds that it has there, and its tables in
// memory of this process, which must stay there. The list of functions is at the begin of pclntab.
func CodeAt(text, etext uintptr, pctab, pclntab Span, funcs uintptr) Code {
	return Code{text, etext, pctab, pclntab, pclntab.Lo, funcs}
}

// Find returns the runtime._func of the code at pc, 0 if there is none, and its entry.
// The handler calls it too.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *Code) Find(l *Offsets, pc uintptr) (f, entry uintptr) {
	if pc < c.Text || pc >= c.Etext || c.funcs < 1 {
		return 0, 0
	}
	off := uint64(pc - c.Text)
	lo, hi := uintptr(0), c.funcs // the function is in [lo, hi)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; uint64(mem.Load32(c.ftab+mid*8)) <= off {
			lo = mid
		} else {
			hi = mid
		}
	}
	f = c.pclntab.Lo + uintptr(mem.Load32(c.ftab+lo*8+4))
	if f+l.FuncNFuncData >= c.pclntab.Hi {
		return 0, 0
	}
	if entry = c.Text + uintptr(mem.Load32(f)); pc < entry {
		return 0, 0
	}
	return f, entry
}

// InlineTree returns where the tree of calls begins that are inlined into the function whose
// runtime._func is at f, in bytes from the module's gofunc, and the table of values that has
// indices in it. ok is false if there are none.
func (c *Code) InlineTree(l *Offsets, f uintptr) (tree uintptr, indices uint32, ok bool) {
	const pcdataInlTree, funcdataInlTree = 2, 3 // abi.PCDATA_InlTreeIndex, abi.FUNCDATA_InlTree
	tables, n := f+l.FuncNFuncData+1, uintptr(mem.Load32(f+l.FuncNPCData))
	at := tables + (n+funcdataInlTree)*4
	if n <= pcdataInlTree || mem.Load8(f+l.FuncNFuncData) <= funcdataInlTree || at+4 > c.pclntab.Hi {
		return 0, 0, false
	}
	off := mem.Load32(at)
	return uintptr(off), mem.Load32(tables + pcdataInlTree*4), off != ^uint32(0)
}

// Value looks up pc in one of the tables of values by address (runtime.pcvalue). entry is the
// entry of pc's function. The handler calls Value too.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *Code) Value(table uint32, entry, pc uintptr) (int32, bool) {
	if table == 0 {
		return 0, false
	}
	p := c.pctab.Lo + uintptr(table)
	end, value := entry, int32(-1)
	for first := true; p < c.pctab.Hi; first = false {
		step := varint(&p, c.pctab.Hi) // zigzag
		if step == 0 && !first {
			break
		}
		value += int32(step>>1) ^ -int32(step&1)
		if end += uintptr(varint(&p, c.pctab.Hi)) * PCQuantum; pc < end {
			return value, true
		}
	}
	return 0, false
}

// varint reads a number of at most 32 bits at *p, but no byte at end or later. It advances *p.
//
//go:nosplit
//go:norace
//go:nocheckptr
func varint(p *uintptr, end uintptr) (v uint32) {
	for shift := uint(0); shift < 35 && *p < end; shift += 7 {
		b := mem.Load8(*p)
		*p++
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			break
		}
	}
	return v
}
