//go:build linux

#include "textflag.h"

// func spawn(flags, stack, word, tasks uintptr) uintptr
//
// The new thread starts with the registers of its parent, except AX and SP. It makes system
// calls and does not access memory.
TEXT ·spawn(SB), NOSPLIT|NOFRAME, $0-40
	MOVQ flags+0(FP), DI
	MOVQ stack+8(FP), SI
	XORL DX, DX
	MOVQ word+16(FP), R10
	MOVQ tasks+24(FP), R9
	XORL R8, R8
	MOVL $56, AX // clone
	SYSCALL
	TESTQ AX, AX
	JEQ  child
	MOVQ AX, ret+32(FP)
	RET

child:
	MOVQ R9, DI
	MOVL $128, SI // FUTEX_WAIT_PRIVATE, while gate is 0
	XORL DX, DX
	LEAQ 8(R9), R10 // limit
	MOVL $202, AX // futex
	SYSCALL
	XORL DI, DI
	MOVL $60, AX // exit
	SYSCALL
	INT  $3
