package attach

// The registers of a thread in a core, by their index in the kernel's struct user_regs_struct.
const corePC, coreSP, coreLR = 16, 19, 0 // there is no LR

// coreSize is the number of registers up to the last of them.
const coreSize = 20

// The registers that a signal interrupted: bytes from the place of the signal's stack in the kernel's struct ucontext.
const signalSP, signalPC, signalLR = 144, 152, 0 // there is no LR
