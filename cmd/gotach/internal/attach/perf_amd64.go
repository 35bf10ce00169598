package attach

// registers are the numbers that the kernel's asm/perf_regs.h gives to SP, IP and R14, and R15, which is not used.
const registers = 1<<7 | 1<<8 | 1<<22 | 1<<23

// ordered returns registers that the kernel gives in the order of their numbers.
func ordered(sp, ip, r14, _ uint64) (uint64, uint64, uint64, uint64) { return sp, r14, 0, ip }
