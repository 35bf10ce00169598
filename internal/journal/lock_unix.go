//go:build darwin || dragonfly || freebsd || linux || netbsd

package journal

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// claim creates the journal of a profile and locks it. It does not follow symbolic links.
func claim(profile string) (*os.File, error) {
	path := profile + Suffix
	for range 3 {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			if err = lock(f); err != nil {
				f.Close()
				return nil, err
			}
			return f, nil
		}
		if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		if err := removeStale(profile); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s: %w", path, ErrBusy)
}

// removeStale removes the journal of a profile, if nobody has locked it.
func removeStale(profile string) error {
	path := profile + Suffix
	fi, err := os.Lstat(path)
	if err != nil {
		return ignoreMissing(err)
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file, so it cannot be the journal", path)
	}
	lock, err := Lock(profile)
	if err != nil {
		return ignoreMissing(err)
	}
	defer lock.Close()
	return ignoreMissing(os.Remove(path))
}

// flock locks a journal without waiting. The lock lasts until the file is closed or the process
// ends. The error wraps ErrBusy, or ErrUnsupported if the file system has no locks.
func flock(f *os.File, how int) error {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("%s: %w", f.Name(), ErrBusy)
	case errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOLCK), errors.Is(err, unix.EINVAL):
		return ErrUnsupported
	}
	return err
}

// lock locks a journal for one process, if the file system has locks.
func lock(f *os.File) error {
	if err := flock(f, unix.LOCK_EX); !errors.Is(err, ErrUnsupported) {
		return err
	}
	return nil
}

// Lock opens the journal of the profile at path for its recovery and locks it until
// the file is closed.
func Lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path+Suffix, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Held reports whether a program is writing the profile at path, or finishing it. The error wraps
// fs.ErrNotExist if there is no journal, and ErrUnsupported if the file system has no locks. Held
// looks at a moment: it holds no lock afterwards.
func Held(path string) (bool, error) {
	f, err := os.OpenFile(path+Suffix, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	return HeldFile(f)
}

// HeldFile is Held for a journal that is open, and closes it.
func HeldFile(f *os.File) (bool, error) {
	defer f.Close()
	err := flock(f, unix.LOCK_SH)
	if errors.Is(err, ErrBusy) {
		return true, nil
	}
	return false, err
}
