//go:build linux

package native

import "github.com/gotach/profiler/internal/mem"

// callTarget returns where the call instruction at pc leads, if it is one.
//
//go:norace
//go:nocheckptr
func callTarget(pc uintptr) uintptr {
	if mem.Load8(pc) != 0xe8 { // CALL rel32
		return 0
	}
	rel := uint32(mem.Load8(pc+1)) | uint32(mem.Load8(pc+2))<<8 | uint32(mem.Load8(pc+3))<<16 | uint32(mem.Load8(pc+4))<<24
	return pc + 5 + uintptr(int64(int32(rel)))
}
