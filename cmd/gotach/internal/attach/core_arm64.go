package attach

// The registers of a thread in a core, by their index in the kernel's struct user_pt_regs.
const coreLR, coreSP, corePC = 30, 31, 32

// coreSize is the number of registers up to the last of them.
const coreSize = 33

// The registers that a signal interrupted: bytes from the place of the signal's stack in the kernel's struct ucontext.
const signalLR, signalSP, signalPC = 408, 416, 424
