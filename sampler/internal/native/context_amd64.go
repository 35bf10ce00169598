//go:build linux

package native

// Where the kernel keeps the interrupted registers in a ucontext (asm/sigcontext.h:
// gregs start at 40, in the order R8..R15, DI, SI, BP, BX, DX, AX, CX, SP, IP).
const (
	ctxBP = 120
	ctxSP = 160
	ctxPC = 168
	ctxLR = 0 // none
)

// frameSlack is how far below its SP a function's frame pointer may point.
const frameSlack = 0

// pcQuantum is the least size of an instruction: what lies before a return
// address, and after the address of an interrupted instruction.
const pcQuantum = 1
