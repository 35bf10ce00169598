//go:build linux

package native

import "github.com/gotach/profiler/internal/mem"

// Offsets of the interrupted registers in a ucontext (asm/sigcontext.h: uc_mcontext at 176;
// fault address, 31 registers, sp, pc).
const (
	ctxBP = 184 + 29*8
	ctxSP = 432
	ctxPC = 440
	ctxLR = 184 + 30*8

	ctxCall, ctxArg = 184 + 8*8, 184 // X8 and X0: a system call's number and first argument

	ctxG = 184 + 28*8 // R28, which is g in Go code

	ctxMask = 40 // the signals that were blocked
)

// frameSlack is how far below its SP a function's frame pointer may point: Go
// saves the frame pointer in the word below.
const frameSlack = 8

// The first instruction of sigtramp has firstOfSigtramp bytes. After it, the frame of
// sigtramp has frameOfSigtramp bytes.
const (
	firstOfSigtramp = 4
	frameOfSigtramp = 240
)

// interruptedM returns the M of this thread, 0 if it is not known. C code and the vDSO use the
// register that has g for something else. So the M is remembered at the address last.
//
//go:nosplit
//go:norace
//go:nocheckptr
func interruptedM(s *shared, ctx, last uintptr) uintptr {
	if s.IsCode(mem.Load64(ctx + ctxPC)) {
		if g := uintptr(mem.Load64(ctx + ctxG)); g != 0 {
			mem.Store64(last, mem.Load64(g+s.Off.GM))
		}
	}
	return uintptr(mem.Load64(last))
}
