//go:build linux

package goruntime

import "github.com/gotach/profiler/internal/mem"

// ReadLeaf says where the return address of the function is that was interrupted at pc. delta is
// the distance from SP to the return address, by the tables (FuncTable.SPDelta). A function with a
// frame starts with PUSHQ BP and
//
//	48 89 e5  MOVQ SP, BP
//
// Before that MOVQ, BP is still the caller's: the chain of frame pointers does not have the
// function's return address.
func ReadLeaf(pc uintptr, delta int32) LeafState {
	switch {
	case delta == 0:
		return LeafAtSP
	case delta == 8 && mem.Load8(pc) == 0x48 && mem.Load8(pc+1) == 0x89 && mem.Load8(pc+2) == 0xe5:
		return LeafAtSP1
	}
	return LeafFramed
}

// afterCall reports whether the code before addr is a call: E8 with a 32-bit
// distance, or FF /2 of 2 to 7 bytes.
func afterCall(addr uintptr) bool {
	if mem.Load8(addr-5) == 0xe8 {
		return true
	}
	for n := uintptr(2); n <= 7; n++ {
		if mem.Load8(addr-n) == 0xff && mem.Load8(addr-n+1)>>3&7 == 2 {
			return true
		}
	}
	return false
}

// CallSize is the size of a direct call.
const CallSize = 5

// CallAt returns the address that the direct call at pc calls, E8 with a 32-bit distance. It
// returns 0 if there is no such call. pc may be within an instruction; then the result is not an
// address of a function, except by accident.
func CallAt(pc uintptr) uintptr {
	if mem.Load8(pc) != 0xe8 {
		return 0
	}
	return CallOf(0xe8|uint64(mem.Load32(pc+1))<<8, pc)
}

// CallOf does so for code that is given: the eight bytes at pc.
func CallOf(code uint64, pc uintptr) uintptr {
	if code&0xff != 0xe8 {
		return 0
	}
	return pc + CallSize + uintptr(int32(code>>8))
}

// callbackFrame is the distance from the frame pointer of runtime.cgocallbackg up to that of
// runtime.asmcgocall. asmcgocall has called C, and C has called cgocallbackg through
// runtime.cgocallback. cgocallback makes a frame of 40 bytes right below the SP of asmcgocall,
// where asmcgocall saved its frame pointer.
const callbackFrame = 56

// PCQuantum is the least size of an instruction in bytes. A return address minus PCQuantum
// is within the call. The address of an interrupted instruction plus PCQuantum serves as a
// return address.
const PCQuantum = 1
