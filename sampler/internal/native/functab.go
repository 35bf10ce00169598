//go:build linux && (amd64 || arm64)

package native

import (
	"cmp"
	"errors"
	"runtime"
	"slices"
	"unsafe"

	"github.com/gotach/profiler/sampler/internal/mem"
)

// funcTable answers two questions about an address in code that no public call answers. Which
// inlined calls is it in? (runtime.CallersFrames needs addresses that runtime.Callers has
// expanded.) How far is the stack pointer from the return address there? funcTable reads
// the tables that the linker puts into the program for tracebacks: runtime.moduledata and the
// tables that it points to. Stripped programs have them too, and they never change. All reads
// stay within the bounds in moduledata, whatever the tables contain.
type funcTable struct {
	l       *layout
	modules []module // in the order of the runtime's list
	order   []uint32 // indices of those after the first, sorted by text
	last    uintptr  // moduledata of the last module
}

// module is one runtime.moduledata: the program, a plugin, or code that the program has generated.
type module struct {
	code
	gofunc    uintptr
	variables []span // data and bss, without the variables that hold no pointers
}

const (
	pclntabMagic = 0xfffffff1 // since Go 1.20

	pcdataInlTree   = 2 // abi.PCDATA_InlTreeIndex
	funcdataInlTree = 3 // abi.FUNCDATA_InlTree
	inlCallSize     = 16
)

// findFuncTable finds the moduledata of the runtime's first module. It searches the program's
// writable memory for a word that points to a table header and is followed by text bounds
// that contain our code.
func findFuncTable(img *image, l *layout) (*funcTable, error) {
	t := &funcTable{l: l}
	for _, w := range img.writable {
		for at := w.lo; at+l.modNext+8 <= w.hi; at += 8 {
			text, etext := uintptr(mem.Load64(at+l.modText)), uintptr(mem.Load64(at+l.modEText))
			if text == 0 || handlerPC < text || handlerPC >= etext {
				continue
			}
			head := mem.ReadWord(uintptr(mem.Load64(at)))
			if uint32(head) != pclntabMagic || byte(head>>48) != pcQuantum || byte(head>>56) != 8 {
				continue
			}
			t.follow(at)
			return t, t.check()
		}
	}
	return nil, errors.New("the program's function tables were not found")
}

// follow adds the module at an address and those after it in the runtime's list. A program can add modules
// for code that it generates, and leave out parts of them. So they are read as memory that may be unmapped.
func (t *funcTable) follow(at uintptr) {
	l := t.l
	word := func(at uintptr) uintptr { return uintptr(mem.ReadWord(at)) }
	slice := func(at uintptr) span {
		lo := word(at)
		return span{lo, lo + word(at+8)}
	}
	for m := at; m != 0 && len(t.modules) < maxModules; m = word(m + l.modNext) {
		t.last = m
		added := module{
			code: code{
				text:    word(m + l.modText),
				etext:   word(m + l.modEText),
				pctab:   slice(m + l.modPCTab),
				pclntab: slice(m + l.modPCLNTable),
				ftab:    word(m + l.modFTab),
				funcs:   max(word(m+l.modFTab+8), 1) - 1, // the last marks the end
			},
			gofunc: word(m + l.modGoFunc),
			variables: []span{
				{word(m + l.modData), word(m + l.modEData)},
				{word(m + l.modBSS), word(m + l.modEBSS)},
			},
		}
		if c := &added.code; !c.pctab.readable() || !c.pclntab.readable() || !(span{c.ftab, c.ftab + c.funcs*8}).readable() {
			c.funcs = 0 // only its bounds are known
		}
		t.modules = append(t.modules, added)
		if i := len(t.modules) - 1; i > 0 {
			after, _ := slices.BinarySearchFunc(t.order, added.text, func(i uint32, text uintptr) int { return cmp.Compare(t.modules[i].text, text) })
			t.order = slices.Insert(t.order, after, uint32(i))
		}
	}
}

// readable reports whether the first and the last word of a part of memory can be read.
func (s span) readable() bool {
	var w [1]uint64
	return s.lo == s.hi || s.hi >= s.lo+8 && s.hi-s.lo < 1<<40 && mem.Read(s.lo, w[:]) == nil && mem.Read(s.hi-8, w[:]) == nil
}

// grow adds the modules that were loaded since the last call, and reports whether there are
// any. The runtime adds modules at the end of its list and never removes one.
func (t *funcTable) grow() bool {
	known := len(t.modules)
	t.follow(uintptr(mem.ReadWord(t.last + t.l.modNext)))
	return len(t.modules) > known
}

// publish makes the modules known to the handler. It writes the list of indices that handlers do not use. One
// that has stood still since the publication before may use it nevertheless: it finds a wrong module or none, and codeOf notices that.
func (t *funcTable) publish(s *shared) {
	s.program = t.modules[0].code
	for i := s.modules; i < uint64(len(t.modules)); i++ {
		*s.codeAt(i) = t.modules[i].code
	}
	half := s.sorted>>32 ^ 1
	for i, index := range t.order {
		mem.Store64(s.orders+(uintptr(half)*maxModules+uintptr(i))*8, uint64(index))
	}
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.sorted)), half<<32|uint64(len(t.order)))
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.modules)), uint64(len(t.modules)))
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.last)), uint64(t.last))
}

// module returns the module whose code contains an address, nil if there is none.
func (t *funcTable) module(pc uintptr) *module {
	if m := &t.modules[0]; pc >= m.text && pc < m.etext {
		return m
	}
	i, found := slices.BinarySearchFunc(t.order, pc, func(i uint32, pc uintptr) int { return cmp.Compare(t.modules[i].text, pc) })
	if !found {
		i--
	}
	if i >= 0 {
		if m := &t.modules[t.order[i]]; pc < m.etext {
			return m
		}
	}
	return nil
}

// check compares the tables with the runtime's own answers for some functions.
func (t *funcTable) check() error {
	for _, pc := range []uintptr{handlerPC, restorerPC, signalPC, entry(visit), entry(copyLabels)} {
		f, entry, _ := t.find(pc)
		if f == 0 || runtime.FuncForPC(pc) == nil || runtime.FuncForPC(pc).Entry() != entry {
			return errors.New("the program's function tables are not where they should be")
		}
	}
	return nil
}

// checkInlining compares expand with pcs, the result of runtime.Callers, which has inlined
// calls expanded.
func (t *funcTable) checkInlining(pcs []uintptr) error {
	for len(pcs) > 0 {
		got := t.expand(nil, pcs[0])
		if len(got) > len(pcs) || !slices.Equal(got, pcs[:len(got)]) {
			return errors.New("the program's tables of inlined calls are not where they should be")
		}
		pcs = pcs[len(got):]
	}
	return nil
}

// find returns the runtime._func of the code at pc, 0 if there is none, and its entry.
func (t *funcTable) find(pc uintptr) (f, entry uintptr, m *module) {
	if m = t.module(pc); m != nil {
		f, entry = m.find(&t.l.offsets, pc)
	}
	return f, entry, m
}

// find returns the runtime._func of the code at pc, 0 if there is none, and its entry.
// The handler calls it too.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *code) find(l *offsets, pc uintptr) (f, entry uintptr) {
	if pc < c.text || pc >= c.etext || c.funcs < 1 {
		return 0, 0
	}
	off := uint64(pc - c.text)
	lo, hi := uintptr(0), c.funcs // the function is in [lo, hi)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; uint64(mem.Load32(c.ftab+mid*8)) <= off {
			lo = mid
		} else {
			hi = mid
		}
	}
	f = c.pclntab.lo + uintptr(mem.Load32(c.ftab+lo*8+4))
	if f+l.funcNFuncData >= c.pclntab.hi {
		return 0, 0
	}
	if entry = c.text + uintptr(mem.Load32(f)); pc < entry {
		return 0, 0
	}
	return f, entry
}

// value looks up pc in one of the tables of values by address (runtime.pcvalue). entry is the
// entry of pc's function. The handler calls value too.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *code) value(table uint32, entry, pc uintptr) (int32, bool) {
	if table == 0 {
		return 0, false
	}
	p := c.pctab.lo + uintptr(table)
	end, value := entry, int32(-1)
	for first := true; p < c.pctab.hi; first = false {
		step := varint(&p, c.pctab.hi) // zigzag
		if step == 0 && !first {
			break
		}
		value += int32(step>>1) ^ -int32(step&1)
		if end += uintptr(varint(&p, c.pctab.hi)) * pcQuantum; pc < end {
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

// spDelta returns the distance in bytes from the stack pointer up to the return address when
// the instruction at pc is about to execute.
func (t *funcTable) spDelta(pc uintptr) (int32, bool) {
	f, entry, m := t.find(pc)
	if f == 0 {
		return 0, false
	}
	return m.value(mem.Load32(f+t.l.funcPCSP), entry, pc)
}

// expand appends the return address pc, and one return address for each inlined call that
// contains it, as runtime.Callers does.
func (t *funcTable) expand(pcs []uintptr, pc uintptr) []uintptr {
	pcs = append(pcs, pc)
	call := pc - 1
	f, entry, m := t.find(call)
	if f == 0 {
		return pcs
	}
	if pc == entry { // a function that has not begun
		call = pc
	}
	npcdata := mem.Load32(f + t.l.funcNPCData)
	tables := f + t.l.funcNFuncData + 1
	tree := tables + uintptr(npcdata)*4 + funcdataInlTree*4
	if npcdata <= pcdataInlTree || mem.Load8(f+t.l.funcNFuncData) <= funcdataInlTree || tree+4 > m.pclntab.hi {
		return pcs
	}
	off := mem.Load32(tree)
	if off == ^uint32(0) {
		return pcs
	}
	if m.gofunc == 0 {
		return pcs
	}
	tree = m.gofunc + uintptr(off)
	for range 256 {
		i, ok := m.value(mem.Load32(tables+pcdataInlTree*4), entry, call)
		if !ok || i < 0 {
			break
		}
		call = entry + uintptr(uint32(mem.ReadWord(tree+uintptr(i)*inlCallSize+t.l.inlParentPC))) // mem.ReadWord: the tree's length is not known
		pcs = append(pcs, call+1)
	}
	return pcs
}
