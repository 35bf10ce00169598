//go:build linux

package goruntime

import "github.com/gotach/profiler/internal/mem"

// ReadLeaf says where the return address of the function is that was interrupted at pc. delta is
// the distance from SP to the caller's SP, by the tables (FuncTable.SPDelta). A function with a
// frame first stores LR and R29 and moves SP, and then sets R29. At its end it loads both before it
// moves SP back:
//
//	d10023fd  SUB $8, RSP, R29
//	910...ff  ADD $n, RSP
//	d65f03c0  RET
//
// Before and after that, LR is the return address. If the frame is small, it loads R29, and then LR
// while it moves SP; between the two the return address is still at SP:
//
//	f85f83fd  MOVD -8(RSP), R29
//	f84...fe  MOVD.P n(RSP), R30
//	d65f03c0  RET
func ReadLeaf(pc uintptr, delta int32) LeafState {
	code := mem.Load32(pc)
	switch {
	case delta == 0, code == 0xd65f03c0:
		return LeafAtSP
	case code&0xffe00fff == 0xf84007fe && mem.Load32(pc+4) == 0xd65f03c0:
		return LeafAtSP1
	case code&0xff8003ff == 0x910003ff && mem.Load32(pc+4) == 0xd65f03c0:
		return LeafAtSP
	}
	// The stores of a prologue are one or two instructions.
	for n := uintptr(0); n < 3; n++ {
		if mem.Load32(pc+n*4) == 0xd10023fd {
			return LeafAtSP
		}
	}
	return LeafFramed
}

// afterCall reports whether the instruction before addr is BL or BLR.
func afterCall(addr uintptr) bool {
	if addr&3 != 0 {
		return false
	}
	code := mem.Load32(addr - 4)
	return code>>26 == 0x25 || code&0xfffffc1f == 0xd63f0000
}

// CallSize is the size of a direct call.
const CallSize = 4

// CallAt returns the address that the instruction at pc calls, 0 if it is no direct call (BL).
func CallAt(pc uintptr) uintptr { return CallOf(uint64(mem.Load32(pc)), pc) }

// CallOf does so for code that is given: the bytes at pc.
func CallOf(code uint64, pc uintptr) uintptr {
	if uint32(code)>>26 != 0x25 {
		return 0
	}
	return pc + uintptr(int32(uint32(code)<<6)>>4)
}

// callbackFrame is not known here. If C has called Go, the stack begins at that call.
const callbackFrame = 0

// PCQuantum is the size of an instruction in bytes. A return address minus PCQuantum is the
// call. The address of an interrupted instruction plus PCQuantum serves as a return address.
const PCQuantum = 4
