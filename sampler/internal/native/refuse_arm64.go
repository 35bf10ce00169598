//go:build linux

package native

import "github.com/gotach/profiler/internal/mem"

// callTarget returns where the call instruction at pc leads, if it is one.
//
//go:norace
//go:nocheckptr
func callTarget(pc uintptr) uintptr {
	word := mem.Load32(pc)
	if word>>26 != 0b100101 { // BL imm26
		return 0
	}
	return pc + uintptr(int64(int32(word<<6)>>6)*4)
}
