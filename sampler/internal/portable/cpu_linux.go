package portable

import (
	"time"

	"golang.org/x/sys/unix"
)

// processTime returns the CPU time that the process has used. It uses clock_gettime, which the
// source needs anyway, so that a seccomp policy need not allow getrusage too.
func processTime() (time.Duration, bool) { return readClock(unix.CLOCK_PROCESS_CPUTIME_ID) }
