#include "textflag.h"

// func spinOn(stack uintptr, n uint64) runs a loop on another stack, as the code of other languages does.
TEXT ·spinOn(SB), NOSPLIT, $0-16
	MOVD stack+0(FP), R0
	MOVD n+8(FP), R1
	MOVD RSP, R2
	MOVD R0, RSP
loop:
	SUBS $1, R1
	BNE  loop
	MOVD R2, RSP
	RET
