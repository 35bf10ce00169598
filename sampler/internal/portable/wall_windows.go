package portable

import (
	"time"

	"golang.org/x/sys/windows"
)

// wallTime returns the time of a clock that can measure one look. Go's clock on Windows moves by up
// to 16 ms at a time: the shortest of some looks would be 0.
func wallTime() time.Duration {
	var t windows.Filetime
	windows.GetSystemTimePreciseAsFileTime(&t)
	return time.Duration(t.Nanoseconds())
}
