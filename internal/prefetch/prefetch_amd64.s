#include "textflag.h"

// func Uint32(p *uint32)
TEXT ·Uint32(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	PREFETCHT0 (AX)
	RET
