//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"github.com/gotach/profiler/sampler/internal/mem"
)

// Code that does not keep a frame pointer. Assembly may use BP for something else, as the hash
// functions and ciphers of the standard library do. The frame pointer chain is then lost until
// the assembly function returns. The linker's tables have, for each instruction, the distance
// from SP to the return address, for assembly too. The caller of the assembly has a frame, and
// the chain goes on there. The tables are read-only memory of the program.
//
// Only amd64 needs this: on arm64 assembly does not touch R29.

// funcFlagSPWrite marks functions that set SP in ways that the tables do not
// show (abi.FuncFlagSPWrite).
const funcFlagSPWrite = 1 << 1

// lost reports whether bp is not a frame pointer. A frame pointer is between sp and hi, and the
// word above it is a return address.
//
//go:nosplit
//go:norace
//go:nocheckptr
func lost(s *shared, sp, bp, hi uintptr) bool {
	if bp < sp || bp > hi-16 || bp&7 != 0 {
		return true
	}
	return !s.isCode(mem.Load64(bp + 8))
}

// unwind writes the interrupted PC and the return addresses of the functions without a frame to
// a record. It writes the frame pointer of the first function with a frame to headSP1. It
// returns the number of PCs, 0 if the tables are of no help.
//
//go:nosplit
//go:norace
//go:nocheckptr
func unwind(s *shared, rec, ctx, hi uintptr) uintptr {
	pcs := rec + headWords*8
	pc, sp := uintptr(mem.Load64(ctx+ctxPC)), uintptr(mem.Load64(ctx+ctxSP))
	mem.Store64(pcs, uint64(pc))
	for n := uintptr(1); n < 4; n++ {
		delta := callDelta(s, pc)
		ret := sp + delta
		if delta > 1<<20 || ret > hi-8 || ret&7 != 0 {
			return 0
		}
		if n > 1 && delta >= 8 {
			mem.Store64(rec+headSP1*8, uint64(ret-8))
			return n
		}
		caller := mem.Load64(ret)
		if !s.isCode(caller) {
			return 0
		}
		mem.Store64(pcs+n*8, caller)
		pc, sp = uintptr(caller)-1, ret+8
	}
	return 0
}

// unwindAll appends the PCs of a stack to the n at dst, by the tables alone. While the runtime copies a stack, frame
// pointers may still be those of the old one. It returns the number of PCs.
//
//go:nosplit
//go:norace
//go:nocheckptr
func unwindAll(s *shared, dst uintptr, n uint64, pc, sp, lo, hi uintptr) uint64 {
	for at := pc; n < maxDepth && sp >= lo && sp < hi && s.isCode(uint64(pc)); n++ {
		mem.Store64(dst+uintptr(n)*8, uint64(pc))
		delta := callDelta(s, at)
		ret := sp + delta
		if delta > 1<<20 || ret > hi-8 || ret&7 != 0 {
			return n + 1
		}
		pc, sp = uintptr(mem.Load64(ret)), ret+8
		at = pc - 1
	}
	return n
}

// delta is funcTable.spDelta for the handler. It returns ^0 if the tables have no value.
//
//go:nosplit
//go:norace
//go:nocheckptr
func delta(s *shared, pc uintptr) uintptr {
	c := s.codeOf(uint64(pc))
	if c == nil {
		return ^uintptr(0)
	}
	f, entry := c.find(&s.off, pc)
	if f == 0 || mem.Load8(f+s.off.funcFlag)&funcFlagSPWrite != 0 {
		return ^uintptr(0)
	}
	value, ok := c.value(mem.Load32(f+s.off.funcPCSP), entry, pc)
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
func (s *shared) codeOf(pc uint64) *code {
	if uintptr(pc) >= s.program.text && uintptr(pc) <= s.program.etext {
		return &s.program
	}
	return callModule(s, uintptr(pc))
}

// moduleOf returns the code of the module, other than the program, that contains an address, nil if there is
// none. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func moduleOf(s *shared, pc uintptr) *code {
	sorted := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.sorted)))
	order := s.orders + uintptr(sorted>>32)*maxModules*8
	lo, hi := uintptr(0), uintptr(sorted&(1<<32-1)) // the last module that begins at pc or before is in [lo, hi)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; s.codeAt(mem.Load64(order+mid*8)).text <= pc {
			lo = mid
		} else {
			hi = mid
		}
	}
	if lo < hi {
		if c := s.codeAt(mem.Load64(order + lo*8)); pc >= c.text && pc <= c.etext {
			return c
		}
	}
	return nil
}

//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) codeAt(i uint64) *code {
	at := s.codes + uintptr(i&(maxModules-1))*unsafe.Sizeof(code{})
	return *(**code)(unsafe.Pointer(&at))
}

// isCode reports whether a word can be a return address. Only such words of a stack are copied
// to records. Other words are data of the program, and the profiler must not keep any.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) isCode(word uint64) bool {
	return uintptr(word) >= s.program.text && uintptr(word) <= s.program.etext || callOtherCode(s, uintptr(word))
}

// mostNew is the number of modules that otherCode looks at that the drain does not know yet. A just-in-time compiler may
// add some between two passes of the drain.
const mostNew = 256

// otherCode reports whether a word is an address of code of a module other than the program. As the runtime does, it reads the
// runtime's list of modules without a lock: modules are complete when they come into it, and stay there. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func otherCode(s *shared, word uintptr) bool {
	if callModule(s, word) != nil {
		return true
	}
	m := uintptr(mem.LoadAcquire(uintptr(unsafe.Pointer(&s.last))))
	for i := 0; m != 0 && i < mostNew; i++ {
		if m = uintptr(mem.LoadAcquire(m + s.off.modNext)); m != 0 && word >= uintptr(mem.Load64(m+s.off.modText)) && word <= uintptr(mem.Load64(m+s.off.modEText)) {
			return true
		}
	}
	return false
}
