//go:build linux

package native

// Where the kernel keeps the interrupted registers in a ucontext (asm/sigcontext.h:
// gregs start at 40, in the order R8..R15, DI, SI, BP, BX, DX, AX, CX, SP, IP).
const (
	ctxBP = 120
	ctxSP = 160
	ctxPC = 168
	ctxLR = 0 // none

	ctxCall, ctxArg = 144, 104 // RAX and RDI: a system call's number and first argument
)

// frameSlack is how far below its SP a function's frame pointer may point.
const frameSlack = 0

// callbackFrame is how far above the frame pointer of runtime.cgocallbackg, which C
// has called by way of runtime.cgocallback, lies that of runtime.asmcgocall, which
// called C: cgocallback makes a frame of its own size, 40 bytes, right below what
// asmcgocall's SP was, and that is where asmcgocall saved its frame pointer.
const callbackFrame = 56

// pcQuantum is the least size of an instruction: what lies before a return
// address, and after the address of an interrupted instruction.
const pcQuantum = 1

// After the first instruction of sigtramp, which has firstOfSigtramp bytes, its frame has so many.
const (
	firstOfSigtramp = 1
	frameOfSigtramp = 8
)
