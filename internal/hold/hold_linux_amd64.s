#include "go_asm.h"
#include "textflag.h"

// The handler that the kernel calls: DI is the signal, SI the siginfo, DX the ucontext. It passes a
// signal on by a jump to the runtime's handler, as if the kernel had called that one. Handlers in C
// may call it as a C function. So it uses only registers that a C function may change. Of the stack it
// uses only the 128 bytes below SP that the ABI gives to functions that call no others.
TEXT ·handler(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	LEAQ ·shared(SB), R8
	CMPL 8(SI), $-2      // si_code SI_TIMER
	JNE  sent
	CMPQ 24(SI), R8      // si_value
	JNE  sent

	// Our timer's signal: pass it on once.
	MOVL $const_stateKept, AX
	MOVL $const_statePassed, CX
	LOCK
	CMPXCHGL CX, memory_state(R8)
	JEQ  pass
	RET

sent:
	MOVL $const_stateWaiting, AX
	MOVL $const_stateKept, CX
	LOCK
	CMPXCHGL CX, memory_state(R8)
	JNE  pass

	// Keep it. Set the timer first, then wake the goroutine.
	MOVL  DI, memory_kept(R8)
	MOVQ  DI, -8(SP)
	MOVQ  SI, -16(SP)
	MOVQ  DX, -24(SP)
	LEAQ  memory_timers(R8), AX
	MOVL  (AX)(DI*4), DI
	XORL  SI, SI
	LEAQ  memory_bound(R8), DX
	XORL  R10, R10
	MOVL  $223, AX // timer_settime
	SYSCALL
	TESTQ AX, AX
	JNE   failed
	MOVL  memory_wake(R8), DI
	LEAQ  memory_one(R8), SI
	MOVL  $8, DX
	MOVL  $1, AX // write
	SYSCALL
	RET

failed:
	// Without the timer the signal could get lost, so it is passed on. This can also be a child process that C code
	// has made with vfork: it has no timers, but the parent's memory. So the parent keeps the next signal.
	MOVQ -24(SP), DX
	MOVQ -16(SP), SI
	MOVQ -8(SP), DI
	MOVL $const_stateWaiting, memory_state(R8)

pass:
	MOVQ memory_next(R8), AX
	JMP  AX

DATA ·handlerPC+0(SB)/8, $·handler(SB)
GLOBL ·handlerPC(SB), NOPTR|RODATA, $8
