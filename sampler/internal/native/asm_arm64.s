//go:build linux

#include "textflag.h"

// What the kernel calls: R0 is the signal, R1 the siginfo, R2 the ucontext, R30
// the way back, on the signal stack. onSignal returns 0, or the address of the
// handler that was here before if the signal is not ours; that one is jumped to
// as if the kernel had called it.
TEXT ·sigtramp(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	SUB  $80, RSP
	MOVD R0, 40(RSP)
	MOVD R1, 48(RSP)
	MOVD R2, 56(RSP)
	MOVD R30, 64(RSP)
	MOVD R1, R0
	MOVD R2, R1
	MOVD ·signalPC(SB), R16
	CALL (R16)
	MOVD R0, R3
	MOVD 40(RSP), R0
	MOVD 48(RSP), R1
	MOVD 56(RSP), R2
	MOVD 64(RSP), R30
	ADD  $80, RSP
	CBNZ R3, forward
	RET

forward:
	JMP (R3)

// Where the handler returns to.
TEXT ·sigreturn(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	MOVD $139, R8 // rt_sigreturn
	SVC
	UNDEF

DATA ·handlerPC+0(SB)/8, $·sigtramp(SB)
GLOBL ·handlerPC(SB), NOPTR|RODATA, $8
DATA ·restorerPC+0(SB)/8, $·sigreturn(SB)
GLOBL ·restorerPC(SB), NOPTR|RODATA, $8

// The Go functions of the handler are called here, in the compiler's own calling
// convention (arguments in R0 to R3, the result in R0, room for the arguments on
// the stack), and not through the wrappers that assembly gets: with -race
// these are instrumented. It also cuts the chain of nosplit calls, which the
// linker bounds by what a goroutine's stack has left, though this is a signal
// stack; builds without optimisation have long ones.
#define STAGE(caller, pc) \
TEXT caller(SB), NOSPLIT, $48-40; \
	MOVD a+0(FP), R0; \
	MOVD b+8(FP), R1; \
	MOVD c+16(FP), R2; \
	MOVD d+24(FP), R3; \
	MOVD pc(SB), R16; \
	CALL (R16); \
	MOVD R0, ret+32(FP); \
	RET

STAGE(·callStay, ·stayPC)
STAGE(·callTick, ·tickPC)
STAGE(·callInterrupt, ·interruptPC)
STAGE(·callInterrupted, ·interruptedPC)
STAGE(·callOther, ·otherPC)
STAGE(·callRecord, ·recordPC)
STAGE(·callSyscall, ·syscallPC)
STAGE(·callStack, ·stackPC)
STAGE(·callFinish, ·finishPC)
STAGE(·callDescribe, ·describePC)
STAGE(·callVisit, ·visitPC)
STAGE(·callWalk, ·walkPC)
STAGE(·callLabels, ·labelsPC)
STAGE(·callUnwind, ·unwindPC)
STAGE(·callDelta, ·deltaPC)

// func getg() uintptr
TEXT ·getg(SB), NOSPLIT, $0-8
	MOVD g, R0
	MOVD R0, ret+0(FP)
	RET

// func rawSyscall(n, a, b, c, d, e, f uintptr) uintptr
TEXT ·rawSyscall(SB), NOSPLIT, $0-64
	MOVD n+0(FP), R8
	MOVD a+8(FP), R0
	MOVD b+16(FP), R1
	MOVD c+24(FP), R2
	MOVD d+32(FP), R3
	MOVD e+40(FP), R4
	MOVD f+48(FP), R5
	SVC
	MOVD R0, ret+56(FP)
	RET

// func fence()
TEXT ·fence(SB), NOSPLIT, $0-0
	DMB $0x9 // ISHLD: earlier loads are done before later loads and stores
	RET

// func cycles() uint64
TEXT ·cycles(SB), NOSPLIT, $0-8
	MRS  CNTVCT_EL0, R0
	MOVD R0, ret+0(FP)
	RET

// func cas64(addr uintptr, old, new uint64) bool
TEXT ·cas64(SB), NOSPLIT, $0-25
	MOVD addr+0(FP), R0
	MOVD old+8(FP), R1
	MOVD new+16(FP), R2

again:
	LDAXR (R0), R3
	CMP   R1, R3
	BNE   fail
	STLXR R2, (R0), R4
	CBNZ  R4, again
	MOVD  $1, R0
	MOVB  R0, ret+24(FP)
	RET

fail:
	CLREX
	MOVB ZR, ret+24(FP)
	RET

// func add64(addr uintptr, delta uint64)
TEXT ·add64(SB), NOSPLIT, $0-16
	MOVD addr+0(FP), R0
	MOVD delta+8(FP), R1

again:
	LDAXR (R0), R3
	ADD   R1, R3
	STLXR R3, (R0), R4
	CBNZ  R4, again
	RET

// func loadAcquire(addr uintptr) uint64
TEXT ·loadAcquire(SB), NOSPLIT, $0-16
	MOVD addr+0(FP), R0
	LDAR (R0), R1
	MOVD R1, ret+8(FP)
	RET

// func storeRelease(addr uintptr, v uint64)
TEXT ·storeRelease(SB), NOSPLIT, $0-16
	MOVD addr+0(FP), R0
	MOVD v+8(FP), R1
	STLR R1, (R0)
	RET

// func prefetch(addr uintptr)
TEXT ·prefetch(SB), NOSPLIT, $0-8
	MOVD addr+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET
