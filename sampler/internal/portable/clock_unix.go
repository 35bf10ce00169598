//go:build linux || darwin

package portable

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the CPU time of the calling thread. On a busy machine a tick takes far longer
// than its CPU time. The time in which the kernel runs other programs is no cost of the tick.
func threadTime() (time.Duration, bool) { return readClock(unix.CLOCK_THREAD_CPUTIME_ID) }

// readClock returns the time of one of the kernel's clocks.
func readClock(clock int32) (time.Duration, bool) {
	var t unix.Timespec
	if unix.ClockGettime(clock, &t) != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
