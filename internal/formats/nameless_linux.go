package formats

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// nameless returns a file in a folder that has no name yet, so that nothing is left of it if the
// process is killed. It is nil if the file system has no such files. The function gives it a name
// that does not exist.
func nameless(dir string) (*os.File, func(name string) error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, nil
	}
	self := fmt.Sprintf("/proc/self/fd/%d", fd)
	if _, err := os.Stat(self); err != nil { // no name can be given without /proc
		unix.Close(fd)
		return nil, nil
	}
	return os.NewFile(uintptr(fd), dir), func(name string) error {
		err := unix.Linkat(unix.AT_FDCWD, self, unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
		return os.NewSyscallError("linkat", err)
	}
}
