package attach

// The registers of a thread in a core, by their index in the kernel's struct user_pt_regs.
const coreLR, coreSP, corePC = 30, 31, 32

// coreSize is the number of registers up to the last of them.
const coreSize = 33

// The registers that a signal interrupted: bytes from the place of the signal's stack in the
// kernel's struct ucontext.
const signalLR, signalSP, signalPC = 408, 416, 424

// registers are those of a sample, the numbers that the kernel's asm/perf_regs.h gives to X28, X29,
// LR, SP and PC.
const registers = 1<<28 | 1<<29 | 1<<30 | 1<<31 | 1<<32

// ordered returns registers that the kernel gives in the order of their numbers.
func ordered(x28, x29, x30, sp, pc1 uint64) (fp, at, g, lr, pc uint64) { return x29, sp, x28, x30, pc1 }
