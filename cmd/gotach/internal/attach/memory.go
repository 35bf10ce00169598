//go:build linux && (amd64 || arm64)

package attach

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

var le = binary.LittleEndian

// maxPieces is the most pieces that one call of process_vm_readv reads.
const maxPieces = 1024

// A memory is that of another process.
type memory struct {
	pid  int                                                  // 0: of a core
	from func(b []byte, from []unix.RemoteIovec) (int, error) // nil: of the process pid
	iovs []unix.RemoteIovec
}

// read fills b with the memory at an address.
func (m *memory) read(addr uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return m.pieces(b, append(m.iovs[:0], unix.RemoteIovec{Base: uintptr(addr), Len: len(b)}))
}

// pieces reads pieces of memory in their order, at most maxPieces, to one buffer of their total length.
func (m *memory) pieces(b []byte, from []unix.RemoteIovec) error {
	var n int
	var err error
	if m.from != nil {
		n, err = m.from(b, from)
	} else {
		n, err = unix.ProcessVMReadv(m.pid, []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}, from, 0)
	}
	if err != nil {
		return err
	}
	if n < len(b) {
		return fmt.Errorf("%w: read %d of %d bytes of process %d", unix.EFAULT, n, len(b), m.pid)
	}
	return nil
}

// word reads eight bytes.
func (m *memory) word(addr uint64) (uint64, error) {
	var b [8]byte
	err := m.read(addr, b[:])
	return le.Uint64(b[:]), err
}

// slice reads what a slice or a string has, given its words: at most so many elements of a size.
func (m *memory) slice(words []byte, size, most uint64) ([]byte, error) {
	n := le.Uint64(words[8:])
	if n > most {
		return nil, fmt.Errorf("%d elements at %#x", n, le.Uint64(words))
	}
	return m.bytes(le.Uint64(words), n*size)
}

// bytes reads a part of memory, of at most 1 MB.
func (m *memory) bytes(addr, n uint64) ([]byte, error) {
	if n > 1<<20 {
		return nil, fmt.Errorf("%d bytes at %#x", n, addr)
	}
	b := make([]byte, n)
	return b, m.read(addr, b)
}
