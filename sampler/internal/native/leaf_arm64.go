//go:build linux

package native

import "runtime"

// readLeaf tells the state from the code. A Go function on arm64 that has a
// frame stores LR and R29 below and then does
//
//	d10023fd  SUB $8, RSP, R29
//
// up to which LR is still that of its caller. It ends with LDP (R29, R30) or a
// load of R30, ADD to RSP, RET, of which the last two run with LR restored. One
// without has its return address in LR throughout.
func readLeaf(pc, entry uintptr) leafState {
	if pc < entry || pc&3 != 0 {
		return leafFramed
	}
	if load32(pc) == 0xd65f03c0 { // RET
		return leafAtSP
	}
	if isAddSP(load32(pc)) && load32(pc+4) == 0xd65f03c0 {
		return leafAtSP
	}
	for p := entry; p < entry+128; p += 4 {
		if load32(p) == 0xd10023fd {
			if pc <= p {
				return leafAtSP
			}
			return leafFramed
		}
		if f := runtime.FuncForPC(p); f == nil || f.Entry() != entry {
			break
		}
	}
	return leafAtSP
}

// isAddSP reports whether code is ADD $imm, RSP, RSP.
func isAddSP(code uint32) bool { return code&0xff8003ff == 0x910003ff }

// afterCall reports whether the instruction before addr is BL or BLR.
func afterCall(addr uintptr) bool {
	if addr&3 != 0 {
		return false
	}
	code := load32(addr - 4)
	return code>>26 == 0x25 || code&0xfffffc1f == 0xd63f0000
}
