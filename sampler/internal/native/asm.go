//go:build linux && (amd64 || arm64)

package native

import "unsafe"

// The handler may not call into the runtime, and with -race sync/atomic is the
// race detector's, so it has its own few instructions.

// handlerPC and restorerPC are the entries of the assembly that the kernel
// calls and returns through.
var handlerPC, restorerPC uintptr

// getg returns the address of the calling goroutine's runtime.g.
func getg() uintptr

// rawSyscall does a system call without telling the scheduler. The result is
// the kernel's: above errnoFloor it is a negated errno.
func rawSyscall(n, a, b, c, d, e, f uintptr) uintptr

// fence completes the loads before it before the loads after it, for the
// processor and for the compiler.
func fence()

// cycles reads the processor's time counter; it costs next to nothing.
func cycles() uint64

// prefetch asks for the cache line of an address. It is a hint: it does not wait, and
// does nothing for an address that is not there.
func prefetch(addr uintptr)

// The entries of the handler's stages, in the compiler's calling convention: what
// a func value points to.
var (
	signalPC      = entry(onSignal)
	stayPC        = entry(stay)
	tickPC        = entry(onTick)
	interruptPC   = entry(interrupt)
	interruptedPC = entry(onInterrupt)
	otherPC       = entry(onOther)
	probePC       = entry(noteProbe)
	recordPC      = entry(recordRunning)
	syscallPC     = entry(recordSyscall)
	stackPC       = entry(recordStack)
	finishPC      = entry(finish)
	describePC    = entry(describe)
	visitPC       = entry(visit)
	walkPC        = entry(walkParked)
	labelsPC      = entry(copyLabels)
	unwindPC      = entry(unwind)
	deltaPC       = entry(delta)
)

func entry(f func(a, b, c, d uintptr) uintptr) uintptr {
	return **(**uintptr)(unsafe.Pointer(&f))
}

// The stages, called through assembly; see STAGE there.
func callStay(s, _, _, _ uintptr) uintptr
func callTick(s, _, _, _ uintptr) uintptr
func callInterrupt(s, i, _, _ uintptr) uintptr
func callInterrupted(s, value, ctx, _ uintptr) uintptr
func callOther(s, ctx, _, _ uintptr) uintptr
func callProbe(s, ctx, _, _ uintptr) uintptr
func callRecord(s, slot, ctx, _ uintptr) uintptr
func callSyscall(s, slot, g, _ uintptr) uintptr
func callStack(s, rec, ctx, _ uintptr) uintptr
func callFinish(s, rec, n, scratch uintptr) uintptr
func callDescribe(s, rec, g, index uintptr) uintptr
func callVisit(s, g, entry, index uintptr) uintptr
func callWalk(s, g, index, _ uintptr) uintptr
func callLabels(s, p, dst, scratch uintptr) uintptr
func callUnwind(s, rec, ctx, hi uintptr) uintptr
func callDelta(s, pc, _, _ uintptr) uintptr

func cas64(addr uintptr, old, new uint64) bool
func add64(addr uintptr, delta uint64)

// swap64 stores a word and returns what was there. Unlike storeRelease it is complete
// before any later load.
func swap64(addr uintptr, v uint64) uint64

func loadAcquire(addr uintptr) uint64
func storeRelease(addr uintptr, v uint64)

const errnoFloor = ^uintptr(4094)

// The memory that is read and written by address is never the Go heap's as the
// collector knows it; going through a pointer's own address keeps checkptr and
// vet, which judge conversions of Go pointers, out of it.

//go:nosplit
//go:norace
//go:nocheckptr
func load64(addr uintptr) uint64 {
	return *(*uint64)(*(*unsafe.Pointer)(unsafe.Pointer(&addr)))
}

//go:nosplit
//go:norace
//go:nocheckptr
func load32(addr uintptr) uint32 {
	return *(*uint32)(*(*unsafe.Pointer)(unsafe.Pointer(&addr)))
}

//go:nosplit
//go:norace
//go:nocheckptr
func load8(addr uintptr) uint8 {
	return *(*uint8)(*(*unsafe.Pointer)(unsafe.Pointer(&addr)))
}

//go:nosplit
//go:norace
//go:nocheckptr
func store64(addr uintptr, v uint64) {
	*(*uint64)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))) = v
}

//go:nosplit
//go:norace
//go:nocheckptr
func store8(addr uintptr, v uint8) {
	*(*uint8)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))) = v
}

//go:nosplit
//go:norace
//go:nocheckptr
func store32(addr uintptr, v uint32) {
	*(*uint32)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))) = v
}
