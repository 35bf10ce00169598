//go:build linux && (amd64 || arm64)

package goruntime

import (
	"unsafe"

	"github.com/gotach/profiler/internal/mem"
)

// View is what a walk must know of the runtime: the offsets of its fields, and where code is. It
// has no Go pointers, so that it can lie in memory that a signal handler reads.
type View struct {
	Off     Offsets
	Program Code    // the first module
	Codes   uintptr // MaxModules of them, in the order of the runtime's list; written once
	Orders  uintptr // twice MaxModules indices in Codes, those of the modules after the first sorted by text; see FuncTable.Publish
	sorted  uint64  // number of these indices | which of the two lists <<32
	Modules uint64  // entries of Codes in use
	last    uint64  // moduledata of the last of these
}

// MaxModules is the number of modules that a view has room for: the program, its plugins, and code
// that it generates.
const MaxModules = 1 << 16

// Functions that a signal handler calls through variables, which nothing writes. The linker bounds
// chains of nosplit calls by the room that a goroutine's stack has left, although the handler runs
// on a signal stack. A call through a variable ends a chain.
var (
	CallDelta     = delta
	callModule    = moduleOf
	callOtherCode = otherCode
)

// delta is FuncTable.SPDelta for a signal handler. It returns ^0 if the tables have no value.
//
//go:nosplit
//go:norace
//go:nocheckptr
func delta(v *View, pc uintptr) uintptr {
	c := v.codeOf(uint64(pc))
	if c == nil {
		return ^uintptr(0)
	}
	f, entry := c.Find(&v.Off, pc)
	if f == 0 || mem.Load8(f+v.Off.FuncFlag)&FuncFlagSPWrite != 0 {
		return ^uintptr(0)
	}
	value, ok := c.Value(mem.Load32(f+v.Off.FuncPCSP), entry, pc)
	if !ok {
		return ^uintptr(0)
	}
	return uintptr(value)
}

// codeOf returns the module that contains an address, nil if it is not Go
// code. The end address counts too: a call that does not return may be the last instruction of
// a module.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (v *View) codeOf(pc uint64) *Code {
	if uintptr(pc) >= v.Program.Text && uintptr(pc) <= v.Program.Etext {
		return &v.Program
	}
	return callModule(v, uintptr(pc))
}

// moduleOf returns the code of the module, other than the program, that contains an address, nil if
// there is none. The handler calls it through a variable.
//
//go:nosplit
//go:norace
//go:nocheckptr
func moduleOf(v *View, pc uintptr) *Code {
	sorted := mem.LoadAcquire(uintptr(unsafe.Pointer(&v.sorted)))
	order := v.Orders + uintptr(sorted>>32)*MaxModules*8
	lo, hi := uintptr(0), uintptr(sorted&(1<<32-1)) // the last module that begins at pc or before is in [lo, hi)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; v.codeAt(mem.Load64(order+mid*8)).Text <= pc {
			lo = mid
		} else {
			hi = mid
		}
	}
	if lo < hi {
		if c := v.codeAt(mem.Load64(order + lo*8)); pc >= c.Text && pc <= c.Etext {
			return c
		}
	}
	return nil
}

//go:nosplit
//go:norace
//go:nocheckptr
func (v *View) codeAt(i uint64) *Code {
	at := v.Codes + uintptr(i&(MaxModules-1))*unsafe.Sizeof(Code{})
	return *(**Code)(unsafe.Pointer(&at))
}

// IsCode reports whether a word can be a return address. Only such words of a stack are copied
// to records. Other words are data of the program, and the profiler must not keep any.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (v *View) IsCode(word uint64) bool {
	return uintptr(word) >= v.Program.Text && uintptr(word) <= v.Program.Etext || callOtherCode(v, uintptr(word))
}

// mostNew is the number of modules that otherCode looks at that the drain does not know yet. A
// just-in-time compiler may add some between two passes of the drain.
const mostNew = 256

// otherCode reports whether a word is an address of code of a module other than the program. As the
// runtime does, it reads the runtime's list of modules without a lock: modules are complete when
// they come into it, and stay there. The handler calls it through a variable.
//
//go:nosplit
//go:norace
//go:nocheckptr
func otherCode(v *View, word uintptr) bool {
	if callModule(v, word) != nil {
		return true
	}
	m := uintptr(mem.LoadAcquire(uintptr(unsafe.Pointer(&v.last))))
	for i := 0; m != 0 && i < mostNew; i++ {
		if m = uintptr(mem.LoadAcquire(m + v.Off.ModNext)); m != 0 && word >= uintptr(mem.Load64(m+v.Off.ModText)) && word <= uintptr(mem.Load64(m+v.Off.ModEText)) {
			return true
		}
	}
	return false
}

// FuncFlagSPWrite marks functions that set SP in ways that the tables do not
// show (abi.FuncFlagSPWrite).
const FuncFlagSPWrite = 1 << 1

// OnlyCode returns 0 for a word that is not an address of Go code.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (v *View) OnlyCode(word uint64) uint64 {
	if !v.IsCode(word) {
		return 0
	}
	return word
}

// Constant calls nothing, unless this package has coverage counters that use sync/atomic.
//
//go:noinline
//go:nosplit
//go:norace
func Constant() uintptr { return 1 }
