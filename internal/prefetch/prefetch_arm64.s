#include "textflag.h"

// func Uint32(p *uint32)
TEXT ·Uint32(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET
