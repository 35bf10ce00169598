//go:build linux

#include "textflag.h"

// The entry that the kernel calls, on the signal stack: R0 is the signal, R1 the siginfo, R2 the
// ucontext, R30 the return address. onSignal returns 0, or the address of the old handler if the
// signal is not ours. sigtramp jumps to the old handler as if the kernel had called it.
//
// The kernel saves every register itself. But C libraries and other Go runtimes can install
// their own handler and call this one as a C function, also after the session. So it preserves
// the registers that the C ABI requires: R19 to R29, the low halves of V8 to V15, and the stack.
TEXT ·sigtramp(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	SUB   $240, RSP
	MOVD  R0, 40(RSP)
	MOVD  R1, 48(RSP)
	MOVD  R2, 56(RSP)
	STP   (R29, R30), 64(RSP)
	STP   (R19, R20), 80(RSP)
	STP   (R21, R22), 96(RSP)
	STP   (R23, R24), 112(RSP)
	STP   (R25, R26), 128(RSP)
	STP   (R27, g), 144(RSP)
	FSTPD (F8, F9), 160(RSP)
	FSTPD (F10, F11), 176(RSP)
	FSTPD (F12, F13), 192(RSP)
	FSTPD (F14, F15), 208(RSP)
	MOVD  R1, R0
	MOVD  R2, R1
	MOVD  ·signalPC(SB), R16
	CALL  (R16)
	MOVD  R0, R3
	MOVD  40(RSP), R0
	MOVD  48(RSP), R1
	MOVD  56(RSP), R2
	LDP   64(RSP), (R29, R30)
	LDP   80(RSP), (R19, R20)
	LDP   96(RSP), (R21, R22)
	LDP   112(RSP), (R23, R24)
	LDP   128(RSP), (R25, R26)
	LDP   144(RSP), (R27, g)
	FLDPD 160(RSP), (F8, F9)
	FLDPD 176(RSP), (F10, F11)
	FLDPD 192(RSP), (F12, F13)
	FLDPD 208(RSP), (F14, F15)
	ADD   $240, RSP
	CBNZ  R3, forward
	RET

forward:
	JMP (R3)

// The code that the handler returns to.
TEXT ·sigreturn(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	MOVD $139, R8 // rt_sigreturn
	SVC
	UNDEF

DATA ·handlerPC+0(SB)/8, $·sigtramp(SB)
GLOBL ·handlerPC(SB), NOPTR|RODATA, $8
DATA ·restorerPC+0(SB)/8, $·sigreturn(SB)
GLOBL ·restorerPC(SB), NOPTR|RODATA, $8
