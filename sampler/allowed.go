package sampler

import (
	"bytes"
	"errors"
	"runtime"

	"github.com/gotach/profiler/sampler/internal/deadlock"
)

// ErrBubble is the error of Start within a testing/synctest bubble. Goroutines that are started
// there belong to the bubble, and its clock does not advance while they run.
var ErrBubble = errors.New("sampler: cannot sample from within a testing/synctest bubble; start the session outside of it")

// ErrDeadlock is the error of a session that ended because all goroutines of the program wait for
// one another. The runtime reports such a deadlock and ends the program, but not while a session
// has threads and timers. So the session ends first. OnError may save the samples before that.
var ErrDeadlock = deadlock.Err

// Allowed returns an error if a session cannot start now in the calling goroutine. It also tests
// whether the system allows the threads that a session needs. Start calls it too.
func Allowed() error {
	if inBubble() {
		return ErrBubble
	}
	return room()
}

// inBubble reports whether the calling goroutine is in a synctest bubble. It reads the header of
// the stack trace, the only place that shows it: "goroutine 8 [running, synctest bubble 7]:".
func inBubble() bool {
	var buf [256]byte
	header, _, _ := bytes.Cut(buf[:runtime.Stack(buf[:], false)], []byte("]"))
	return bytes.Contains(header, []byte("synctest bubble"))
}
