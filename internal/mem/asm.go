//go:build linux && (amd64 || arm64)

package mem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

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

// PlainReads makes Gather and Read use plain loads. It is for tests under an emulator without
// process_vm_readv.
var PlainReads bool

// Gather has the kernel copy n parts of this process's memory, which may be unmapped, to a place.
// from is a list of iovecs with the parts, size the sum of their lengths, and local has room for an
// iovec. Gather returns the number of bytes that were copied, or a negated errno.
//
//go:nosplit
//go:norace
//go:nocheckptr
func Gather(pid uint64, to, size, from, n, local uintptr) uintptr {
	if PlainReads {
		for ; n > 0; n, from = n-1, from+16 {
			for at, end := uintptr(Load64(from)), uintptr(Load64(from)+Load64(from+8)); at < end; at, to = at+1, to+1 {
				Store8(to, Load8(at))
			}
		}
		return size
	}
	Store64(local, uint64(to))
	Store64(local+8, uint64(size))
	return Syscall(unix.SYS_PROCESS_VM_READV, uintptr(pid), local, 1, from, n, 0)
}

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
