package own

import (
	"runtime"
	"time"
)

// Turn gives the calling goroutine a time slice of its own. It must call end afterwards, and may
// call [Again] before.
//
// When a slice of 10 ms has ended or the world has been stopped, the runtime puts the goroutine
// behind all others that can run. If these need their slices too, that takes seconds. A goroutine
// whose timer has expired is the next one to run, but in the slice of the one before it. Only one
// that is locked to its thread has a slice of its own then (runtime.schedule).
func Turn() (end func()) {
	runtime.LockOSThread()
	Again()
	return runtime.UnlockOSThread
}

// Again gives the caller of [Turn] a new time slice.
func Again() { time.Sleep(time.Nanosecond) }

// Timer starts a timer that does nothing, and returns what stops it.
func Timer(d time.Duration) (stop func() bool) { return time.AfterFunc(d, func() {}).Stop }
