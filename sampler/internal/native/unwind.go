//go:build linux && (amd64 || arm64)

package native

import (
	"github.com/gotach/profiler/internal/mem"

	"github.com/gotach/profiler/internal/goruntime"
)

// Code that does not keep a frame pointer. Assembly may use BP for something else, as the hash
// functions and ciphers of the standard library do. The frame pointer chain is then lost until
// the assembly function returns. The linker's tables have, for each instruction, the distance
// from SP to the return address, for assembly too. The caller of the assembly has a frame, and
// the chain goes on there. The tables are read-only memory of the program.
//
// Only amd64 needs this: on arm64 assembly does not touch R29.

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
		delta := goruntime.CallDelta(&s.View, pc)
		ret := sp + delta
		if delta > 1<<20 || ret > hi-8 || ret&7 != 0 {
			return 0
		}
		if n > 1 && delta >= 8 {
			mem.Store64(rec+headSP1*8, uint64(ret-8))
			return n
		}
		caller := mem.Load64(ret)
		if !s.IsCode(caller) {
			return 0
		}
		mem.Store64(pcs+n*8, caller)
		pc, sp = uintptr(caller)-1, ret+8
	}
	return 0
}

var callUnwind = unwind
