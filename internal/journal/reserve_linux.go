package journal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve extends a file to off+size bytes and allocates the blocks from off on.
func reserve(f *os.File, off, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, off, size)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return reserveByWriting(f, off, size)
		}
		return os.NewSyscallError("fallocate", err)
	}
}
