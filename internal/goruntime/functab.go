//go:build linux && (amd64 || arm64)

package goruntime

import (
	"cmp"
	"errors"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/gotach/profiler/internal/mem"
)

// A FuncTable answers two questions about an address in code that no public call answers. Which
// inlined calls is it in? (runtime.CallersFrames needs addresses that runtime.Callers has
// expanded.) How far is the stack pointer from the return address there? FuncTable reads
// the tables that the linker puts into the program for tracebacks: runtime.moduledata and the
// tables that it points to. Stripped programs have them too, and they never change. All reads
// stay within the bounds in moduledata, whatever the tables contain.
//
// Only ordinary goroutines use a FuncTable: Start makes it, the drain uses it. The handler uses the
// View (Publish).
type FuncTable struct {
	L       *Layout
	Modules []module // in the order of the runtime's list
	order   []uint32 // indices of those after the first, sorted by text
	last    uintptr  // moduledata of the last module
}

// A module is one runtime.moduledata: the program, a plugin, or code that the program has
// generated.
type module struct {
	Code
	gofunc    uintptr
	Variables []Span // data and bss, without the variables that hold no pointers
}

const (
	pclntabMagic = 0xfffffff1 // since Go 1.20
	inlCallSize  = 16
)

// FindFuncTable finds the moduledata of the runtime's first module. It searches the program's
// writable memory for a word that points to a table header and is followed by text bounds
// that contain ours, the addresses of some of our functions.
func FindFuncTable(img *Image, l *Layout, ours ...uintptr) (*FuncTable, error) {
	t := &FuncTable{L: l}
	for _, w := range img.Writable {
		for at := w.Lo; at+l.ModNext+8 <= w.Hi; at += 8 {
			text, etext := uintptr(mem.Load64(at+l.ModText)), uintptr(mem.Load64(at+l.ModEText))
			if text == 0 || ours[0] < text || ours[0] >= etext {
				continue
			}
			head := mem.ReadWord(uintptr(mem.Load64(at)))
			if uint32(head) != pclntabMagic || byte(head>>48) != PCQuantum || byte(head>>56) != 8 {
				continue
			}
			t.follow(at)
			return t, t.check(ours)
		}
	}
	return nil, errors.New("the program's function tables were not found")
}

// follow adds the module at an address and those after it in the runtime's list. A program can add
// modules for code that it generates, and leave out parts of them. So they are read as memory that
// may be unmapped.
func (t *FuncTable) follow(at uintptr) {
	l := t.L
	word := func(at uintptr) uintptr { return uintptr(mem.ReadWord(at)) }
	slice := func(at uintptr) Span {
		lo := word(at)
		return Span{lo, lo + word(at+8)}
	}
	for m := at; m != 0 && len(t.Modules) < MaxModules; m = word(m + l.ModNext) {
		t.last = m
		added := module{
			Code: Code{
				Text:    word(m + l.ModText),
				Etext:   word(m + l.ModEText),
				pctab:   slice(m + l.ModPCTab),
				pclntab: slice(m + l.ModPCLNTable),
				ftab:    word(m + l.ModFTab),
				funcs:   max(word(m+l.ModFTab+8), 1) - 1, // the last marks the end
			},
			gofunc: word(m + l.ModGoFunc),
			Variables: []Span{
				{word(m + l.ModData), word(m + l.ModEData)},
				{word(m + l.ModBSS), word(m + l.ModEBSS)},
			},
		}
		if c := &added.Code; !c.pctab.readable() || !c.pclntab.readable() || !(Span{c.ftab, c.ftab + c.funcs*8}).readable() {
			c.funcs = 0 // only its bounds are known
		}
		t.Modules = append(t.Modules, added)
		if i := len(t.Modules) - 1; i > 0 {
			after, _ := slices.BinarySearchFunc(t.order, added.Text, func(i uint32, text uintptr) int { return cmp.Compare(t.Modules[i].Text, text) })
			t.order = slices.Insert(t.order, after, uint32(i))
		}
	}
}

// readable reports whether the first and the last word of a part of memory can be read.
func (s Span) readable() bool {
	var w [1]uint64
	return s.Lo == s.Hi || s.Hi >= s.Lo+8 && s.Hi-s.Lo < 1<<40 && mem.Read(s.Lo, w[:]) == nil && mem.Read(s.Hi-8, w[:]) == nil
}

// Grow adds the modules that were loaded since the last call, and reports whether there are
// any. The runtime adds modules at the end of its list and never removes one.
func (t *FuncTable) Grow() bool {
	known := len(t.Modules)
	t.follow(uintptr(mem.ReadWord(t.last + t.L.ModNext)))
	return len(t.Modules) > known
}

// Publish makes the modules known to the handler. The View has two sorted lists of indices:
// handlers use one, and Publish writes the other and then makes it the one to use. A handler that
// has stood still since the Publish before this one may still use the list that is written. It
// finds a wrong module or none: moduleOf returns a module only if that contains the address.
func (t *FuncTable) Publish(v *View) {
	v.Program = t.Modules[0].Code
	for i := v.Modules; i < uint64(len(t.Modules)); i++ {
		*v.codeAt(i) = t.Modules[i].Code
	}
	half := v.sorted>>32 ^ 1
	for i, index := range t.order {
		mem.Store64(v.Orders+(uintptr(half)*MaxModules+uintptr(i))*8, uint64(index))
	}
	mem.StoreRelease(uintptr(unsafe.Pointer(&v.sorted)), half<<32|uint64(len(t.order)))
	mem.StoreRelease(uintptr(unsafe.Pointer(&v.Modules)), uint64(len(t.Modules)))
	mem.StoreRelease(uintptr(unsafe.Pointer(&v.last)), uint64(t.last))
}

// Module returns the module whose code contains an address, nil if there is none.
func (t *FuncTable) Module(pc uintptr) *module {
	if m := &t.Modules[0]; pc >= m.Text && pc < m.Etext {
		return m
	}
	i, found := slices.BinarySearchFunc(t.order, pc, func(i uint32, pc uintptr) int { return cmp.Compare(t.Modules[i].Text, pc) })
	if !found {
		i--
	}
	if i >= 0 {
		if m := &t.Modules[t.order[i]]; pc < m.Etext {
			return m
		}
	}
	return nil
}

// check compares the tables with the runtime's own answers for some functions.
func (t *FuncTable) check(ours []uintptr) error {
	for _, pc := range ours {
		f, entry, _ := t.Find(pc)
		if f == 0 || runtime.FuncForPC(pc) == nil || runtime.FuncForPC(pc).Entry() != entry {
			return errors.New("the program's function tables are not where they should be")
		}
	}
	return nil
}

// CheckInlining returns an error if Expand does not find the inlined calls in pcs, a result of
// runtime.Callers, which has them all.
func (t *FuncTable) CheckInlining(pcs []uintptr) error {
	for len(pcs) > 0 {
		got := t.Expand(nil, pcs[0])
		if len(got) > len(pcs) || !slices.Equal(got, pcs[:len(got)]) {
			return errors.New("the program's tables of inlined calls are not where they should be")
		}
		pcs = pcs[len(got):]
	}
	return nil
}

// Find returns the runtime._func of the code at pc, 0 if there is none, its entry and its module.
func (t *FuncTable) Find(pc uintptr) (f, entry uintptr, m *module) {
	if m = t.Module(pc); m != nil {
		f, entry = m.Find(&t.L.Offsets, pc)
	}
	return f, entry, m
}

// SPDelta returns the distance in bytes from the stack pointer up to the return address when
// the instruction at pc is about to execute.
func (t *FuncTable) SPDelta(pc uintptr) (int32, bool) {
	f, entry, m := t.Find(pc)
	if f == 0 {
		return 0, false
	}
	return m.Value(mem.Load32(f+t.L.FuncPCSP), entry, pc)
}

// Expand appends the return address pc, and one return address for each inlined call that
// contains it, as runtime.Callers does.
func (t *FuncTable) Expand(pcs []uintptr, pc uintptr) []uintptr {
	pcs = append(pcs, pc)
	call := pc - 1
	f, entry, m := t.Find(call)
	if f == 0 {
		return pcs
	}
	if pc == entry { // a function that has not begun
		call = pc
	}
	tree, indices, ok := m.InlineTree(&t.L.Offsets, f)
	if !ok || m.gofunc == 0 {
		return pcs
	}
	for range 256 {
		i, ok := m.Value(indices, entry, call)
		if !ok || i < 0 {
			break
		}
		call = entry + uintptr(uint32(mem.ReadWord(m.gofunc+tree+uintptr(i)*inlCallSize+t.L.InlParentPC))) // mem.ReadWord: the tree's length is not known
		pcs = append(pcs, call+1)
	}
	return pcs
}

// IsReturn reports whether an address is the return address of a call in Go code.
func IsReturn(addr uint64) bool {
	if addr < 4096 {
		return false
	}
	f := runtime.FuncForPC(uintptr(addr) - 1)
	return f != nil && (afterCall(uintptr(addr)) || f.Name() == "runtime.goexit")
}

// Hidden reports whether runtime.Stack leaves a function out (runtime.showfuncinfo): the
// runtime's functions except exported ones.
func Hidden(name string) bool {
	name, ok := strings.CutPrefix(name, "runtime.")
	if !ok {
		return false
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		receiver := strings.TrimSuffix(strings.TrimPrefix(name[:i], "(*"), ")")
		if receiver == "" || receiver[0] < 'A' || receiver[0] > 'Z' {
			return true
		}
		name = name[i+1:]
	}
	return name == "" || name[0] < 'A' || name[0] > 'Z'
}
