//go:build linux

#include "textflag.h"

// The entry that the kernel calls, on the signal stack: DI is the signal, SI the siginfo, DX the
// ucontext. onSignal returns 0, or the address of the old handler if the signal is not ours.
// sigtramp jumps to the old handler as if the kernel had called it.
//
// The kernel saves every register itself. But C libraries and other Go runtimes can install
// their own handler and call this one as a C function, also after the session. So it preserves
// the registers that the C ABI requires: BX, BP, R12 to R15, and the stack. The direction flag
// is clear on entry, by the kernel and by the ABI.
TEXT ·sigtramp(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	PUSHQ BP
	MOVQ  SP, BP
	SUBQ  $96, SP
	MOVQ  DI, 32(SP)
	MOVQ  SI, 40(SP)
	MOVQ  DX, 48(SP)
	MOVQ  BX, 56(SP)
	MOVQ  R12, 64(SP)
	MOVQ  R13, 72(SP)
	MOVQ  R14, 80(SP)
	MOVQ  R15, 88(SP)
	MOVQ  SI, AX
	MOVQ  DX, BX
	XORPS X15, X15
	MOVQ  ·signalPC(SB), R8
	CALL  R8
	MOVQ  32(SP), DI
	MOVQ  40(SP), SI
	MOVQ  48(SP), DX
	MOVQ  56(SP), BX
	MOVQ  64(SP), R12
	MOVQ  72(SP), R13
	MOVQ  80(SP), R14
	MOVQ  88(SP), R15
	ADDQ  $96, SP
	POPQ  BP
	TESTQ AX, AX
	JNE   forward
	RET

forward:
	JMP AX

// The code that the handler returns to; amd64 has no such code in the vDSO.
TEXT ·sigreturn(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	MOVQ $15, AX // rt_sigreturn
	SYSCALL
	INT  $3

DATA ·handlerPC+0(SB)/8, $·sigtramp(SB)
GLOBL ·handlerPC(SB), NOPTR|RODATA, $8
DATA ·restorerPC+0(SB)/8, $·sigreturn(SB)
GLOBL ·restorerPC(SB), NOPTR|RODATA, $8
