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

// func getg() uintptr
TEXT ·getg(SB), NOSPLIT, $0-8
	MOVD g, R0
	MOVD R0, ret+0(FP)
	RET

// func rawSyscall(n, a, b, c, d, e, f uintptr) uintptr
TEXT ·rawSyscall(SB), NOSPLIT, $0-64
	MOVD n+0(FP), R8
	MOVD a+8(FP), R0
	MOVD b+16(FP), R1
	MOVD c+24(FP), R2
	MOVD d+32(FP), R3
	MOVD e+40(FP), R4
	MOVD f+48(FP), R5
	SVC
	MOVD R0, ret+56(FP)
	RET

// func fence()
TEXT ·fence(SB), NOSPLIT, $0-0
	DMB $0x9 // ISHLD: earlier loads are done before later loads and stores
	RET

// func cycles() uint64
TEXT ·cycles(SB), NOSPLIT, $0-8
	MRS  CNTVCT_EL0, R0
	MOVD R0, ret+0(FP)
	RET

// func cas64(addr uintptr, old, new uint64) bool
TEXT ·cas64(SB), NOSPLIT, $0-25
	MOVD addr+0(FP), R0
	MOVD old+8(FP), R1
	MOVD new+16(FP), R2

again:
	LDAXR (R0), R3
	CMP   R1, R3
	BNE   fail
	STLXR R2, (R0), R4
	CBNZ  R4, again
	MOVD  $1, R0
	MOVB  R0, ret+24(FP)
	RET

fail:
	CLREX
	MOVB ZR, ret+24(FP)
	RET

// func add64(addr uintptr, delta uint64)
TEXT ·add64(SB), NOSPLIT, $0-16
	MOVD addr+0(FP), R0
	MOVD delta+8(FP), R1

again:
	LDAXR (R0), R3
	ADD   R1, R3
	STLXR R3, (R0), R4
	CBNZ  R4, again
	RET

// func loadAcquire(addr uintptr) uint64
TEXT ·loadAcquire(SB), NOSPLIT, $0-16
	MOVD addr+0(FP), R0
	LDAR (R0), R1
	MOVD R1, ret+8(FP)
	RET

// func storeRelease(addr uintptr, v uint64)
TEXT ·storeRelease(SB), NOSPLIT, $0-16
	MOVD addr+0(FP), R0
	MOVD v+8(FP), R1
	STLR R1, (R0)
	RET

// func swap64(addr uintptr, v uint64) uint64
TEXT ·swap64(SB), NOSPLIT, $0-24
	MOVD addr+0(FP), R0
	MOVD v+8(FP), R1

again:
	LDAXR (R0), R2
	STLXR R1, (R0), R3
	CBNZ  R3, again
	DMB   $0xb // ISH: later loads are not done before the store
	MOVD  R2, ret+16(FP)
	RET

// func prefetch(addr uintptr)
TEXT ·prefetch(SB), NOSPLIT, $0-8
	MOVD addr+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET
