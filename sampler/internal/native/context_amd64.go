//go:build linux

package native

import "github.com/gotach/profiler/sampler/internal/mem"

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

// callbackFrame is the distance from the frame pointer of runtime.cgocallbackg up to that of
// runtime.asmcgocall. asmcgocall has called C, and C has called cgocallbackg through
// runtime.cgocallback. cgocallback makes a frame of 40 bytes right below the SP of asmcgocall,
// where asmcgocall saved its frame pointer.
const callbackFrame = 56

// pcQuantum is the least size of an instruction in bytes. A return address minus pcQuantum
// is within the call. The address of an interrupted instruction plus pcQuantum serves as a
// return address.
const pcQuantum = 1

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
		return uintptr(mem.Load64(g + s.off.gM))
	}
	return 0
}
