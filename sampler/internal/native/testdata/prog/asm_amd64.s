#include "textflag.h"

// func spinOn(stack uintptr, n uint64) runs a loop on another stack, as the code of other languages does.
TEXT ·spinOn(SB), NOSPLIT, $0-16
	MOVQ stack+0(FP), AX
	MOVQ n+8(FP), CX
	MOVQ SP, R8
	MOVQ AX, SP
loop:
	DECQ CX
	JNE  loop
	MOVQ R8, SP
	RET
