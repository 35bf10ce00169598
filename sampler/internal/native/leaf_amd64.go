//go:build linux

package native

import "runtime"

// readLeaf tells the state from the code. A Go function on amd64 that has a
// frame starts with
//
//	[stack check, jump to the end if there is none left]
//	55        PUSHQ BP
//	48 89 e5  MOVQ SP, BP
//
// and ends with POPQ BP, RET. One without has its return address at SP
// throughout. What the stack check jumps to, behind the function's last
// instruction, runs without a frame too.
func readLeaf(pc, entry uintptr) leafState {
	if pc < entry {
		return leafFramed
	}
	if load8(pc) == 0xc3 { // RET
		return leafAtSP
	}
	push := uintptr(0)
	tail := ^uintptr(0)
	for p := entry; p < entry+64; p++ {
		if code32(p) == 0xe5894855 {
			push = p
			break
		}
		// CMPQ x, 16(R14), then JLS
		if code32(p)&^4 == 0x10663b49 {
			switch j := p + 4; {
			case load8(j) == 0x76:
				tail = j + 2 + uintptr(int8(load8(j+1)))
			case load8(j) == 0x0f && load8(j+1) == 0x86:
				tail = j + 6 + uintptr(int32(code32(j+2)))
			}
		}
		if f := runtime.FuncForPC(p); f == nil || f.Entry() != entry {
			break
		}
	}
	switch {
	case push == 0 || pc <= push || tail > push && pc >= tail:
		return leafAtSP
	case pc == push+1:
		return leafAtSP1
	}
	return leafFramed
}

func code32(p uintptr) uint32 {
	return uint32(load8(p)) | uint32(load8(p+1))<<8 | uint32(load8(p+2))<<16 | uint32(load8(p+3))<<24
}

// afterCall reports whether the code before addr is a call: E8 with a 32-bit
// distance, or FF /2 of 2 to 7 bytes.
func afterCall(addr uintptr) bool {
	if load8(addr-5) == 0xe8 {
		return true
	}
	for n := uintptr(2); n <= 7; n++ {
		if load8(addr-n) == 0xff && load8(addr-n+1)>>3&7 == 2 {
			return true
		}
	}
	return false
}
