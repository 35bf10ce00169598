//go:build linux

#include "textflag.h"

// func Getg() uintptr
TEXT ·Getg(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ AX, ret+0(FP)
	RET

// func Syscall(n, a, b, c, d, e, f uintptr) uintptr
TEXT ·Syscall(SB), NOSPLIT, $0-64
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

// func Fence()
TEXT ·Fence(SB), NOSPLIT, $0-0
	RET // loads are not reordered with loads on amd64; the call stops the compiler

// func Cycles() uint64
TEXT ·Cycles(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET

// func Cas64(addr uintptr, old, new uint64) bool
TEXT ·Cas64(SB), NOSPLIT, $0-25
	MOVQ addr+0(FP), DI
	MOVQ old+8(FP), AX
	MOVQ new+16(FP), CX
	LOCK
	CMPXCHGQ CX, 0(DI)
	SETEQ ret+24(FP)
	RET

// func Add64(addr uintptr, delta uint64)
TEXT ·Add64(SB), NOSPLIT, $0-16
	MOVQ addr+0(FP), DI
	MOVQ delta+8(FP), AX
	LOCK
	XADDQ AX, 0(DI)
	RET

// func LoadAcquire(addr uintptr) uint64
TEXT ·LoadAcquire(SB), NOSPLIT, $0-16
	MOVQ addr+0(FP), DI
	MOVQ 0(DI), AX
	MOVQ AX, ret+8(FP)
	RET

// func StoreRelease(addr uintptr, v uint64)
TEXT ·StoreRelease(SB), NOSPLIT, $0-16
	MOVQ addr+0(FP), DI
	MOVQ v+8(FP), AX
	MOVQ AX, 0(DI)
	RET

// func Swap64(addr uintptr, v uint64) uint64
TEXT ·Swap64(SB), NOSPLIT, $0-24
	MOVQ  addr+0(FP), DI
	MOVQ  v+8(FP), AX
	XCHGQ AX, 0(DI)
	MOVQ  AX, ret+16(FP)
	RET

// func Prefetch(addr, n uintptr)
TEXT ·Prefetch(SB), NOSPLIT, $0-16
	MOVQ addr+0(FP), AX
	MOVQ n+8(FP), CX
	ADDQ AX, CX
	ANDQ $~63, AX
next:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	CMPQ AX, CX
	JCS  next
	RET
