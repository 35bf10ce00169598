//go:build linux

package native

// Offsets of the interrupted registers in a ucontext (asm/sigcontext.h: uc_mcontext at 176;
// fault address, 31 registers, sp, pc).
const (
	ctxBP = 184 + 29*8
	ctxSP = 432
	ctxPC = 440
	ctxLR = 184 + 30*8

	ctxCall, ctxArg = 184 + 8*8, 184 // X8 and X0: a system call's number and first argument

	ctxMask = 40 // the signals that were blocked
)

// frameSlack is how far below its SP a function's frame pointer may point: Go
// saves the frame pointer in the word below.
const frameSlack = 8

// callbackFrame is not known here. If C has called Go, the stack begins at that call.
const callbackFrame = 0

// pcQuantum is the size of an instruction in bytes. A return address minus pcQuantum is the
// call. The address of an interrupted instruction plus pcQuantum serves as a return address.
const pcQuantum = 4

// The first instruction of sigtramp has firstOfSigtramp bytes. After it, the frame of
// sigtramp has frameOfSigtramp bytes.
const (
	firstOfSigtramp = 4
	frameOfSigtramp = 240
)
