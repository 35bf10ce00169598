//go:build linux && (amd64 || arm64)

package mem

import "unsafe"

// The signal handler must not call into the runtime. With -race, sync/atomic calls the race
// detector. So the handler has its own atomic operations and system calls in assembly.

// Getg returns the address of the calling goroutine's runtime.g.
func Getg() uintptr

// Syscall makes a system call without telling the scheduler. It returns the kernel's
// result: above ErrnoFloor that is a negated errno.
func Syscall(n, a, b, c, d, e, f uintptr) uintptr

// Fence completes the loads before it before the loads after it, for the
// processor and for the compiler.
func Fence()

// Cycles reads the processor's time counter, which takes some ns.
func Cycles() uint64

// Prefetch loads the cache lines of n bytes into the cache. It is a hint: it does not
// wait, and it does nothing for an unmapped address.
func Prefetch(addr, n uintptr)

// Cas64 replaces a word if it is old, and reports whether it was.
func Cas64(addr uintptr, old, new uint64) bool

// Add64 adds to a word.
func Add64(addr uintptr, delta uint64)

// Swap64 stores a word and returns the old one. Unlike StoreRelease it is complete before
// any later load.
func Swap64(addr uintptr, v uint64) uint64

func LoadAcquire(addr uintptr) uint64
func StoreRelease(addr uintptr, v uint64)

const ErrnoFloor = ^uintptr(4094)

// These functions access memory by address that is no Go pointer for the collector. They
// convert through the address of the pointer, because checkptr and vet reject a direct
// conversion from uintptr.

//go:nosplit
//go:norace
//go:nocheckptr
func Load64(addr uintptr) uint64 {
	return *(*uint64)(*(*unsafe.Pointer)(unsafe.Pointer(&addr)))
}

//go:nosplit
//go:norace
//go:nocheckptr
func Load32(addr uintptr) uint32 {
	return *(*uint32)(*(*unsafe.Pointer)(unsafe.Pointer(&addr)))
}

//go:nosplit
//go:norace
//go:nocheckptr
func Load8(addr uintptr) uint8 {
	return *(*uint8)(*(*unsafe.Pointer)(unsafe.Pointer(&addr)))
}

//go:nosplit
//go:norace
//go:nocheckptr
func Store64(addr uintptr, v uint64) {
	*(*uint64)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))) = v
}

//go:nosplit
//go:norace
//go:nocheckptr
func Store8(addr uintptr, v uint8) {
	*(*uint8)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))) = v
}

//go:nosplit
//go:norace
//go:nocheckptr
func Store32(addr uintptr, v uint32) {
	*(*uint32)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))) = v
}
