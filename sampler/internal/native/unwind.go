//go:build linux && (amd64 || arm64)

package native

// Code that does not keep a frame pointer. Assembly may use BP for something else
// (the hash functions and ciphers of the standard library do); the frame pointer
// chain is then lost until it returns. The linker's tables tell for each instruction,
// of assembly too, how far SP is from the return address. The function that called
// the assembly has a frame, and the chain goes on there. The tables are read-only
// memory of the program.
//
// Only amd64 needs this: on arm64 assembly does not touch R29.

// funcFlagSPWrite marks functions that set SP in ways that the tables do not
// show (abi.FuncFlagSPWrite).
const funcFlagSPWrite = 1 << 1

// lost reports whether bp is not the frame pointer of a frame between sp and hi: above
// a frame pointer there is a return address.
//
//go:nosplit
//go:norace
//go:nocheckptr
func lost(s *shared, sp, bp, hi uintptr) bool {
	if bp < sp || bp > hi-16 || bp&7 != 0 {
		return true
	}
	ret := uintptr(load64(bp + 8))
	return ret < s.code.text || ret >= s.code.etext
}

// unwind writes to a record the interrupted PC and the return addresses of the functions
// without a frame, and to headSP1 the frame pointer of the first function with one. It
// returns the number of PCs, 0 if the tables do not tell.
//
//go:nosplit
//go:norace
//go:nocheckptr
func unwind(base, rec, ctx, hi uintptr) uintptr {
	s := at(base)
	pcs := rec + headWords*8
	pc, sp := uintptr(load64(ctx+ctxPC)), uintptr(load64(ctx+ctxSP))
	store64(pcs, uint64(pc))
	for n := uintptr(1); n < 4; n++ {
		delta := callDelta(base, pc, 0, 0)
		ret := sp + delta
		if delta > 1<<20 || ret > hi-8 || ret&7 != 0 {
			return 0
		}
		if n > 1 && delta >= 8 {
			store64(rec+headSP1*8, uint64(ret-8))
			return n
		}
		caller := uintptr(load64(ret))
		if caller <= s.code.text || caller >= s.code.etext {
			return 0
		}
		store64(pcs+n*8, uint64(caller))
		pc, sp = caller-1, ret+8
	}
	return 0
}

// delta is funcTable.spDelta for the handler: in the program's own code only, and ^0
// where the tables do not tell.
//
//go:nosplit
//go:norace
//go:nocheckptr
func delta(base, pc, _, _ uintptr) uintptr {
	s := at(base)
	f, entry := s.code.find(&s.off, pc)
	if f == 0 || load8(f+s.off.funcFlag)&funcFlagSPWrite != 0 {
		return ^uintptr(0)
	}
	value, ok := s.code.value(load32(f+s.off.funcPCSP), entry, pc)
	if !ok {
		return ^uintptr(0)
	}
	return uintptr(value)
}
