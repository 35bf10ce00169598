#include "textflag.h"

// func keepsBP(n int, junk uint64)
TEXT ·keepsBP(SB), NOSPLIT, $8-16
	MOVQ n+0(FP), AX
	MOVQ junk+8(FP), CX
	MOVQ BP, x-8(SP)
	MOVQ CX, BP
loop:
	DECQ AX
	JNE  loop
	MOVQ x-8(SP), BP
	RET
