//go:build aix || darwin || dragonfly || freebsd || linux || netbsd || openbsd

package reader

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"
)

// errShrunk is the error of reading a page of the mapping after its file was truncated.
var errShrunk = errors.New("the file was truncated or its disk failed while it was being read")

// A mapping is a file mapped into memory. Only ReadAt accesses the mapped pages, and it
// copies their bytes. If the file is truncated, the access raises SIGBUS, which would kill
// the process; ReadAt returns an error instead.
type mapping struct {
	mu   sync.RWMutex // held for reading by ReadAt, so that Close does not unmap under it
	data []byte       // nil after Close
	size int64
}

// regularSource maps f and closes it.
func regularSource(f *os.File, size int64) (source, error) {
	defer f.Close() // the mapping stays valid
	if int64(int(size)) != size {
		return nil, fmt.Errorf("%s: the file has %d bytes, too many for this system's address space", f.Name(), size)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, mapFlags(size))
	if err != nil {
		// Some file systems do not support mappings.
		return readAll(f)
	}
	// Without the advice reading is only slower, so errors are ignored.
	_ = unix.Madvise(data, unix.MADV_SEQUENTIAL)
	_ = unix.Madvise(data, unix.MADV_WILLNEED)
	adviseHuge(data)
	return &mapping{data: data, size: size}, nil
}

func (m *mapping) Size() int64 { return m.size }

// ReadAt copies from the mapping.
func (m *mapping) ReadAt(p []byte, off int64) (n int, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.data == nil {
		return 0, os.ErrClosed
	}
	if off < 0 || off >= int64(len(m.data)) {
		return 0, io.EOF
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch f := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // a memory fault
			n, err = 0, errShrunk
		default:
			panic(f)
		}
	}()
	n = copy(p, m.data[off:])
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

// release removes the pages between two offsets from this process. They stay in the kernel's page
// cache.
func (m *mapping) release(from, to int64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	page := int64(os.Getpagesize())
	from, to = (from+page-1)/page*page, min(to, int64(len(m.data)))/page*page
	if from < to {
		_ = unix.Madvise(m.data[from:to], unix.MADV_DONTNEED) // an error here costs only memory
	}
}

// Close unmaps the file. It waits for running calls of ReadAt.
func (m *mapping) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.data == nil {
		return nil
	}
	err := unix.Munmap(m.data)
	m.data = nil
	return err
}
