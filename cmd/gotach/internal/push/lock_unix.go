//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package push

import (
	"errors"
	"os"
	"syscall"
)

// lock locks a file until it is closed or the process ends. The error wraps ErrInUse if another
// process has locked it.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return ErrInUse
	case errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.EINVAL):
		return nil // the file system has no locks
	}
	return err
}
