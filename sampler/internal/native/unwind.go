//go:build linux && (amd64 || arm64)

package native

// Code that has no use for a frame pointer. Assembly may keep something else in BP
// (the hash functions and ciphers of the standard library do), and then the
// frame pointer chain is lost until it returns. How far SP is from the return address
// the linker's tables tell for each instruction, of assembly too; the function
// that called it has a frame and continues the chain. The tables are read-only memory of
// the program.
//
// This is amd64's trouble alone: on arm64 assembly leaves R29 alone.

// funcFlagSPWrite marks functions that set SP in ways that the tables do not
// tell (abi.FuncFlagSPWrite).
const funcFlagSPWrite = 1 << 1

// lost reports whether bp is no frame pointer of a stack between sp and hi: that
// of a frame has a return address above it.
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

// unwind writes to a record the interrupted PC and the return addresses of what
// has no frame, and the frame pointer of the first function that has one to
// headSP1. It returns how many PCs these are, 0 if the tables do not tell.
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

// delta is funcTable.spDelta for the handler: without the runtime, in the program's own
// code only, and ^0 if it does not know.
//
//go:nosplit
//go:norace
//go:nocheckptr
func delta(base, pc, _, _ uintptr) uintptr {
	s := at(base)
	c := &s.code
	if pc < c.text || pc >= c.etext {
		return ^uintptr(0)
	}
	off := uint64(pc - c.text)
	lo, hi := uintptr(0), c.funcs // the entry is in [lo, hi)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; uint64(load32(c.ftab+mid*8)) <= off {
			lo = mid
		} else {
			hi = mid
		}
	}
	f := c.pclntab.lo + uintptr(load32(c.ftab+lo*8+4))
	if f+s.off.funcNFuncData >= c.pclntab.hi {
		return ^uintptr(0)
	}
	entry := c.text + uintptr(load32(f))
	table := load32(f + s.off.funcPCSP)
	if pc < entry || table == 0 || load8(f+s.off.funcFlag)&funcFlagSPWrite != 0 {
		return ^uintptr(0)
	}
	p := c.pctab.lo + uintptr(table)
	end, value := entry, int64(-1)
	for first := true; p < c.pctab.hi; first = false {
		step := varint(&p, c.pctab.hi) // zigzag
		if step == 0 && !first {
			break
		}
		value += int64(step>>1) ^ -int64(step&1)
		if end += uintptr(varint(&p, c.pctab.hi)) * pcQuantum; pc < end {
			return uintptr(value)
		}
	}
	return ^uintptr(0)
}
