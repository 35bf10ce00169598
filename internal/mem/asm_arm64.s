//go:build linux

#include "textflag.h"

// func Getg() uintptr
TEXT ·Getg(SB), NOSPLIT, $0-8
	MOVD g, R0
	MOVD R0, ret+0(FP)
	RET

// func Syscall(n, a, b, c, d, e, f uintptr) uintptr
TEXT ·Syscall(SB), NOSPLIT, $0-64
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

// func Fence()
TEXT ·Fence(SB), NOSPLIT, $0-0
	DMB $0x9 // ISHLD: earlier loads are done before later loads and stores
	RET

// func Cycles() uint64
TEXT ·Cycles(SB), NOSPLIT, $0-8
	MRS  CNTVCT_EL0, R0
	MOVD R0, ret+0(FP)
	RET

// func Cas64(addr uintptr, old, new uint64) bool
TEXT ·Cas64(SB), NOSPLIT, $0-25
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

// func Add64(addr uintptr, delta uint64)
TEXT ·Add64(SB), NOSPLIT, $0-16
	MOVD addr+0(FP), R0
	MOVD delta+8(FP), R1

again:
	LDAXR (R0), R3
	ADD   R1, R3
	STLXR R3, (R0), R4
	CBNZ  R4, again
	RET

// func LoadAcquire(addr uintptr) uint64
TEXT ·LoadAcquire(SB), NOSPLIT, $0-16
	MOVD addr+0(FP), R0
	LDAR (R0), R1
	MOVD R1, ret+8(FP)
	RET

// func StoreRelease(addr uintptr, v uint64)
TEXT ·StoreRelease(SB), NOSPLIT, $0-16
	MOVD addr+0(FP), R0
	MOVD v+8(FP), R1
	STLR R1, (R0)
	RET

// func Swap64(addr uintptr, v uint64) uint64
TEXT ·Swap64(SB), NOSPLIT, $0-24
	MOVD addr+0(FP), R0
	MOVD v+8(FP), R1

again:
	LDAXR (R0), R2
	STLXR R1, (R0), R3
	CBNZ  R3, again
	DMB   $0xb // ISH: later loads are not done before the store
	MOVD  R2, ret+16(FP)
	RET

// func Prefetch(addr, n uintptr)
TEXT ·Prefetch(SB), NOSPLIT, $0-16
	MOVD addr+0(FP), R0
	MOVD n+8(FP), R1
	ADD  R0, R1
	AND  $~63, R0
next:
	PRFM (R0), PLDL1KEEP
	ADD  $64, R0
	CMP  R1, R0
	BLO  next
	RET
