#include "go_asm.h"
#include "textflag.h"

// The handler that the kernel calls: R0 is the signal, R1 the siginfo, R2 the ucontext. It passes a
// signal on by a jump to the runtime's handler, as if the kernel had called that one. Handlers in C
// may call it as a C function. So it uses only registers that a C function may change. It uses no
// stack.
TEXT ·handler(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	MOVD $·shared(SB), R9
	MOVW 8(R1), R10     // si_code
	CMPW $-2, R10       // SI_TIMER
	BNE  sent
	MOVD 24(R1), R10    // si_value
	CMP  R9, R10
	BNE  sent

	// Our timer's signal: pass it on once.
	MOVD $const_statePassed, R11

timer:
	LDAXRW (R9), R12
	CMPW   $const_stateKept, R12
	BNE    drop
	STLXRW R11, (R9), R13
	CBNZ   R13, timer
	B      pass

drop:
	CLREX
	RET

sent:
	MOVD $const_stateKept, R11

keep:
	LDAXRW (R9), R12
	CMPW   $const_stateWaiting, R12
	BNE    later
	STLXRW R11, (R9), R13
	CBNZ   R13, keep

	// Keep it. Set the timer first, then wake the goroutine.
	MOVW R0, memory_kept(R9)
	MOVD R0, R14
	MOVD R1, R15
	MOVD R2, R5
	MOVD $memory_timers(R9), R10
	MOVW (R10)(R14<<2), R0
	MOVD $0, R1
	MOVD $memory_bound(R9), R2
	MOVD $0, R3
	MOVD $110, R8 // timer_settime
	SVC
	CBNZ R0, failed
	MOVW memory_wake(R9), R0
	MOVD $memory_one(R9), R1
	MOVD $8, R2
	MOVD $64, R8 // write
	SVC
	RET

failed:
	// Without the timer the signal could get lost, so it is passed on. This can also be a child process that C code
	// has made with vfork: it has no timers, but the parent's memory. So the parent keeps the next signal.
	MOVD R14, R0
	MOVD R15, R1
	MOVD R5, R2
	MOVD $const_stateWaiting, R10
	STLRW R10, (R9)
	B    pass

later:
	CLREX

pass:
	MOVD memory_next(R9), R10
	JMP  (R10)

DATA ·handlerPC+0(SB)/8, $·handler(SB)
GLOBL ·handlerPC(SB), NOPTR|RODATA, $8
