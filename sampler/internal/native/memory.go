//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is anonymous memory outside the Go heap, zeroed.
type mapping []byte

func mapMemory(size uintptr) (mapping, error) {
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("mmap of %d bytes: %w", size, err)
	}
	return b, nil
}

func (m mapping) addr() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(m))) }

// plainReads makes read use plain loads, and turn a fault into an error. It is for tests under
// an emulator without process_vm_readv.
var plainReads bool

//go:norace
//go:nocheckptr
func readPlain(addr uintptr, dst []uint64) error {
	return unlessFault(func() error {
		for i := range dst {
			dst[i] = load64(addr + uintptr(i)*8)
		}
		return nil
	})
}

// unlessFault calls f. It returns an error if f panics or reads unmapped memory: a runtime with
// another layout must not end the program.
func unlessFault(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("reading the runtime's memory: %v", r)
		}
	}()
	return f()
}

// read copies len(dst) words at addr to dst. The kernel makes the copy, and returns an error if
// addr is not mapped.
func read(addr uintptr, dst []uint64) error {
	if len(dst) == 0 {
		return nil
	}
	if plainReads {
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

// readWord reads one word. It returns 0 for unmapped memory.
func readWord(addr uintptr) uint64 {
	var w [1]uint64
	if read(addr, w[:]) != nil {
		return 0
	}
	return w[0]
}
