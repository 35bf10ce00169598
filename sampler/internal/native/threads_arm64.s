//go:build linux

#include "textflag.h"

// func spawn(flags, stack, word, tasks uintptr) uintptr
//
// The new thread starts with the registers of its parent, except R0 and RSP. It makes system
// calls and does not access memory.
TEXT ·spawn(SB), NOSPLIT|NOFRAME, $0-40
	MOVD flags+0(FP), R0
	MOVD stack+8(FP), R1
	MOVD $0, R2
	MOVD $0, R3
	MOVD word+16(FP), R4
	MOVD tasks+24(FP), R9
	MOVD $220, R8 // clone
	SVC
	CBZ  R0, child
	MOVD R0, ret+32(FP)
	RET

child:
	MOVD R9, R0
	MOVD $128, R1 // FUTEX_WAIT_PRIVATE, while gate is 0
	MOVD $0, R2
	ADD  $8, R9, R3 // limit
	MOVD $98, R8 // futex
	SVC
	MOVD $0, R0
	MOVD $93, R8 // exit
	SVC
	BRK
