#include "textflag.h"

// func keepsBP(n int, junk uint64)
TEXT ·keepsBP(SB), NOSPLIT, $16-16
	MOVD n+0(FP), R0
	MOVD junk+8(FP), R1
	MOVD R29, x-8(SP)
	MOVD R1, R29
loop:
	SUBS $1, R0
	BNE  loop
	MOVD x-8(SP), R29
	RET
