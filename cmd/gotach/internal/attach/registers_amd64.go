package attach

// The registers of a thread in a core, by their index in the kernel's struct user_regs_struct.
const corePC, coreSP, coreLR = 16, 19, 0 // there is no LR

// coreSize is the number of registers up to the last of them.
const coreSize = 20

// The registers that a signal interrupted: bytes from the place of the signal's stack in the
// kernel's struct ucontext.
const signalSP, signalPC, signalLR = 144, 152, 0 // there is no LR

// registers are those of a sample, the numbers that the kernel's asm/perf_regs.h gives to BP, SP,
// IP and R14, and R15, which is not used.
const registers = 1<<6 | 1<<7 | 1<<8 | 1<<22 | 1<<23

// ordered returns registers that the kernel gives in the order of their numbers.
func ordered(bp, sp, ip, r14, _ uint64) (fp, at, g, lr, pc uint64) { return bp, sp, r14, 0, ip }
