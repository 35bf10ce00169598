//go:build darwin || dragonfly || freebsd || linux || netbsd

package testenv

import (
	"os"

	"golang.org/x/sys/unix"
)

// Share maps size bytes of a file, which it creates if needed. A program that a test
// kills reports its progress there: the contents survive the program. The caller may
// unmap the memory.
func Share(path string, size int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}
