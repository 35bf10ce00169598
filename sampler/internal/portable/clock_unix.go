//go:build linux || darwin

package portable

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the CPU time of the calling thread. On a busy machine a tick takes far longer
// than its CPU time. The time in which the kernel runs other programs is no cost of the tick.
func threadTime() (time.Duration, bool) {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
