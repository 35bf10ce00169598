//go:build linux

package native

// Where the kernel keeps the interrupted registers in a ucontext (asm/sigcontext.h:
// uc_mcontext at 176; fault address, 31 registers, sp, pc).
const (
	ctxBP = 184 + 29*8
	ctxSP = 432
	ctxPC = 440
	ctxLR = 184 + 30*8

	ctxCall, ctxArg = 184 + 8*8, 184 // X8 and X0: a system call's number and first argument
)

// frameSlack is how far below its SP a function's frame pointer may point: Go
// saves the frame pointer in the word below.
const frameSlack = 8

// callbackFrame is not known here; a stack that C has called back on begins there.
const callbackFrame = 0

// pcQuantum is the least size of an instruction: what lies before a return
// address, and after the address of an interrupted instruction.
const pcQuantum = 4

// After the first instruction of sigtramp, which has firstOfSigtramp bytes, its frame has so many.
const (
	firstOfSigtramp = 4
	frameOfSigtramp = 240
)
