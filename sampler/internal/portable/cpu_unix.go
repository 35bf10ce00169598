//go:build unix && !linux

package portable

import (
	"time"

	"golang.org/x/sys/unix"
)

// processTime returns the CPU time that the process has used.
func processTime() (time.Duration, bool) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
