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

// func getg() uintptr
TEXT ·getg(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ AX, ret+0(FP)
	RET

// func rawSyscall(n, a, b, c, d, e, f uintptr) uintptr
TEXT ·rawSyscall(SB), NOSPLIT, $0-64
	MOVQ n+0(FP), AX
	MOVQ a+8(FP), DI
	MOVQ b+16(FP), SI
	MOVQ c+24(FP), DX
	MOVQ d+32(FP), R10
	MOVQ e+40(FP), R8
	MOVQ f+48(FP), R9
	SYSCALL
	MOVQ AX, ret+56(FP)
	RET

// func fence()
TEXT ·fence(SB), NOSPLIT, $0-0
	RET // loads are not reordered with loads on amd64; the call stops the compiler

// func cycles() uint64
TEXT ·cycles(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET

// func cas64(addr uintptr, old, new uint64) bool
TEXT ·cas64(SB), NOSPLIT, $0-25
	MOVQ addr+0(FP), DI
	MOVQ old+8(FP), AX
	MOVQ new+16(FP), CX
	LOCK
	CMPXCHGQ CX, 0(DI)
	SETEQ ret+24(FP)
	RET

// func add64(addr uintptr, delta uint64)
TEXT ·add64(SB), NOSPLIT, $0-16
	MOVQ addr+0(FP), DI
	MOVQ delta+8(FP), AX
	LOCK
	XADDQ AX, 0(DI)
	RET

// func loadAcquire(addr uintptr) uint64
TEXT ·loadAcquire(SB), NOSPLIT, $0-16
	MOVQ addr+0(FP), DI
	MOVQ 0(DI), AX
	MOVQ AX, ret+8(FP)
	RET

// func storeRelease(addr uintptr, v uint64)
TEXT ·storeRelease(SB), NOSPLIT, $0-16
	MOVQ addr+0(FP), DI
	MOVQ v+8(FP), AX
	MOVQ AX, 0(DI)
	RET

// func swap64(addr uintptr, v uint64) uint64
TEXT ·swap64(SB), NOSPLIT, $0-24
	MOVQ  addr+0(FP), DI
	MOVQ  v+8(FP), AX
	XCHGQ AX, 0(DI)
	MOVQ  AX, ret+16(FP)
	RET

// func prefetch(addr uintptr)
TEXT ·prefetch(SB), NOSPLIT, $0-8
	MOVQ addr+0(FP), AX
	PREFETCHT0 (AX)
	RET
