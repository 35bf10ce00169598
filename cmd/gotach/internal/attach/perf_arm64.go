package attach

// registers are the numbers that the kernel's asm/perf_regs.h gives to X28, LR, SP and PC.
const registers = 1<<28 | 1<<30 | 1<<31 | 1<<32

// ordered returns registers that the kernel gives in the order of their numbers.
func ordered(x28, lr, sp, pc uint64) (uint64, uint64, uint64, uint64) { return sp, x28, lr, pc }
