//go:build linux

package native

import "github.com/gotach/profiler/internal/mem"

// Offsets of the interrupted registers in a ucontext (asm/sigcontext.h: gregs start at 40, in
// the order R8..R15, DI, SI, BP, BX, DX, AX, CX, SP, IP).
const (
	ctxBP = 120
	ctxSP = 160
	ctxPC = 168
	ctxLR = 0 // none

	ctxCall, ctxArg = 144, 104 // RAX and RDI: a system call's number and first argument

	ctxMask = 296 // the signals that were blocked: after 256 bytes of registers
)

// frameSlack is how far below its SP a function's frame pointer may point.
const frameSlack = 0

// The first instruction of sigtramp has firstOfSigtramp bytes. After it, the frame of
// sigtramp has frameOfSigtramp bytes.
const (
	firstOfSigtramp = 1
	frameOfSigtramp = 8
)

// interruptedM returns the M of this thread, 0 if C started the thread and it runs no Go code.
//
//go:nosplit
//go:norace
//go:nocheckptr
func interruptedM(s *shared, _, _ uintptr) uintptr {
	if g := mem.Getg(); g != 0 {
		return uintptr(mem.Load64(g + s.Off.GM))
	}
	return 0
}
