//go:build linux

package native

// readLeaf tells the state from how far SP is from the return address, and from
// the code. A function that has a frame starts with PUSHQ BP and
//
//	48 89 e5  MOVQ SP, BP
//
// before which its caller's frame is the first of the chain.
func readLeaf(pc uintptr, delta int32) leafState {
	switch {
	case delta == 0:
		return leafAtSP
	case delta == 8 && load8(pc) == 0x48 && load8(pc+1) == 0x89 && load8(pc+2) == 0xe5:
		return leafAtSP1
	}
	return leafFramed
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
