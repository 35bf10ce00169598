//go:build linux && (amd64 || arm64)

package native

import "unsafe"

// The handler must not call into the runtime. With -race, sync/atomic calls the race
// detector. So the handler has its own atomic operations and system calls in assembly.

// handlerPC is the entry that the kernel calls. restorerPC is the code that the handler
// returns to.
var handlerPC, restorerPC uintptr

// getg returns the address of the calling goroutine's runtime.g.
func getg() uintptr

// rawSyscall makes a system call without telling the scheduler. It returns the kernel's
// result: above errnoFloor that is a negated errno.
func rawSyscall(n, a, b, c, d, e, f uintptr) uintptr

// fence completes the loads before it before the loads after it, for the
// processor and for the compiler.
func fence()

// cycles reads the processor's time counter, which takes some ns.
func cycles() uint64

// prefetch loads the cache line of an address into the cache. It is a hint: it does not
// wait, and it does nothing for an unmapped address.
func prefetch(addr uintptr)

// signalPC is the entry of onSignal, which sigtramp calls with the compiler's calling convention.
var signalPC = entry(onSignal)

// entry returns the code address of a function.
func entry[F any](f F) uintptr {
	return **(**uintptr)(unsafe.Pointer(&f))
}

func cas64(addr uintptr, old, new uint64) bool
func add64(addr uintptr, delta uint64)

// swap64 stores a word and returns the old one. Unlike storeRelease it is complete before
// any later load.
func swap64(addr uintptr, v uint64) uint64

func loadAcquire(addr uintptr) uint64
func storeRelease(addr uintptr, v uint64)

const errnoFloor = ^uintptr(4094)

// These functions access memory by address that is no Go pointer for the collector. They
// convert through the address of the pointer, because checkptr and vet reject a direct
// conversion from uintptr.

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
