//go:build linux && (amd64 || arm64)

package attach

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

var le = binary.LittleEndian

// maxPieces is the most pieces that one call of process_vm_readv reads.
const maxPieces = 1024

// A memory is that of another process.
type memory struct {
	pid   int                                                  // 0: of a core
	from  func(b []byte, from []unix.RemoteIovec) (int, error) // nil: of the process pid
	iovs  []unix.RemoteIovec                                   // of gather
	parts []int                                                // where each piece that was asked for ends in what is read
	size  int                                                  // of all of them
	took  int                                                  // pieces that next has returned
	buf   []byte
}

// read fills b with the memory at an address.
func (m *memory) read(addr uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return m.pieces(b, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}})
}

// pieces reads pieces of memory in their order, at most maxPieces, to one buffer of their total
// length.
func (m *memory) pieces(b []byte, from []unix.RemoteIovec) error {
	var n int
	var err error
	if m.from != nil {
		n, err = m.from(b, from)
	} else {
		to := unix.Iovec{Base: &b[0], Len: uint64(len(b))}
		got, _, e := unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(m.pid), uintptr(unsafe.Pointer(&to)), 1, uintptr(unsafe.Pointer(&from[0])), uintptr(len(from)), 0) // see paused
		if n = int(got); e != 0 {
			err = e
		}
	}
	if err == nil && n < len(b) {
		err = fmt.Errorf("%w: read %d of %d bytes of process %d", unix.EFAULT, n, len(b), m.pid)
	}
	return err
}

// mostRead is the most bytes that gather reads at once, and near the most between two pieces that
// it reads in vain, because a piece more costs more.
const mostRead, near = 4 << 20, 1024

// gather reads memory for each of a list, in few calls. want asks for at most three pieces. take
// gets them in the same order, by next.
func (m *memory) gather(list []int, want, take func(i int)) error {
	for len(list) > 0 {
		m.iovs, m.parts, m.size, m.took = m.iovs[:0], m.parts[:0], 0, 0
		n := 0
		for ; n < len(list) && len(m.iovs)+3 <= maxPieces && m.size < mostRead; n++ {
			want(list[n])
		}
		m.buf = slices.Grow(m.buf[:0], m.size)[:m.size]
		if err := m.pieces(m.buf, m.iovs); err != nil {
			return err
		}
		for _, i := range list[:n] {
			take(i)
		}
		list = list[n:]
	}
	return nil
}

// ask asks for a piece, which is read after those that were asked for before.
func (m *memory) ask(addr uint64, size int) {
	at, k := uintptr(addr), len(m.iovs)-1
	if k < 0 || at < m.iovs[k].Base+uintptr(m.iovs[k].Len) || at-m.iovs[k].Base-uintptr(m.iovs[k].Len) >= near {
		m.iovs = append(m.iovs, unix.RemoteIovec{Base: at})
		k++
	}
	more := int(at-m.iovs[k].Base) - m.iovs[k].Len + size
	m.iovs[k].Len += more
	m.size += more
	m.parts = append(m.parts, m.size)
}

// next returns the next piece, which has a size.
func (m *memory) next(size int) []byte {
	end := m.parts[m.took]
	m.took++
	return m.buf[end-size : end]
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
