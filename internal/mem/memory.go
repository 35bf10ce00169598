//go:build linux && (amd64 || arm64)

// Package mem reads and writes memory by its address, the only way in which the rooms beside it
// touch what is not theirs: the runtime's memory, and memory outside the Go heap that they share
// with the signal handler.
//
// The functions of asm.go are for the handler too: they are nosplit and norace, allocate nothing
// and call only one another. Their addresses must be mapped, except those that Gather reads. Read,
// ReadWord and ReadBig let the kernel copy too, and return an error where nothing is mapped; only
// ordinary goroutines call them.
//
// # Files
//
//   - memory.go has Map, and reads that may fail
//   - asm.go has loads, stores, atomic operations, system calls, and copies by the kernel
package mem

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mapping is anonymous memory outside the Go heap, zeroed.
type Mapping []byte

// Map returns new memory, which belongs to the caller.
func Map(size uintptr) (Mapping, error) {
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("mmap of %d bytes: %w", size, err)
	}
	return b, nil
}

// Addr returns the address of the first byte.
func (m Mapping) Addr() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(m))) }

//go:norace
//go:nocheckptr
func readPlain(addr uintptr, dst []uint64) error {
	return UnlessFault(func() error {
		for i := range dst {
			dst[i] = Load64(addr + uintptr(i)*8)
		}
		return nil
	})
}

// UnlessFault calls f. It returns an error if f panics or reads unmapped memory: a runtime with
// another layout must not end the program.
func UnlessFault(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("reading the runtime's memory: %v", r)
		}
	}()
	return f()
}

// Read copies len(dst) words at addr to dst. The kernel makes the copy, and returns an error if
// addr is not mapped.
func Read(addr uintptr, dst []uint64) error {
	if len(dst) == 0 {
		return nil
	}
	if PlainReads {
		return readPlain(addr, dst)
	}
	size := len(dst) * 8
	local := unix.Iovec{Base: (*byte)(unsafe.Pointer(&dst[0]))}
	local.SetLen(size)
	// A raw system call, so that the caller's own g and P keep the status running.
	remote := unix.RemoteIovec{Base: addr, Len: size}
	n, _, err := unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(os.Getpid()), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
	runtime.KeepAlive(dst)
	if err != 0 {
		return fmt.Errorf("process_vm_readv: %w", err)
	}
	if int(n) != size {
		return fmt.Errorf("process_vm_readv: %d of %d bytes at %#x", n, size, addr)
	}
	return nil
}

// ReadBig is Read in parts, for any length: the kernel copies at most 2 GB in one call.
func ReadBig(addr uintptr, dst []uint64) error {
	for len(dst) > 0 {
		n := min(len(dst), 1<<17)
		if err := Read(addr, dst[:n]); err != nil {
			return err
		}
		addr, dst = addr+uintptr(n)*8, dst[n:]
	}
	return nil
}

// ReadWord reads one word. It returns 0 for unmapped memory.
func ReadWord(addr uintptr) uint64 {
	var w [1]uint64
	if Read(addr, w[:]) != nil {
		return 0
	}
	return w[0]
}

// Constant calls nothing, unless this package has coverage counters that use sync/atomic.
//
//go:noinline
//go:nosplit
//go:norace
func Constant() uintptr { return 1 }
