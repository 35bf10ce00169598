//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package dcpi

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockPatience is how long a flush waits for other processes. A profiled program
// flushes when it ends, so it must not wait forever.
const lockPatience = 5 * time.Second

// lock waits until no other process has locked the directory, and locks it.
func lock(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(5 * time.Millisecond) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case err != syscall.EWOULDBLOCK && err != syscall.EINTR:
			f.Close()
			return nil, err
		case time.Now().After(deadline):
			f.Close()
			return nil, fmt.Errorf("held by another process for %v", lockPatience)
		}
	}
}
