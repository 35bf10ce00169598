package sampler

import (
	"bytes"
	"errors"
	"runtime"

	"github.com/gotach/profiler/sampler/internal/deadlock"
)

// ErrBubble is the error of a Start within testing/synctest: goroutines that are started
// there belong to the bubble, whose clock stands still while they run.
var ErrBubble = errors.New("sampler: cannot sample from within a testing/synctest bubble; start the session outside of it")

// ErrDeadlock is the error of a session that ended because all goroutines of the program
// wait for one another: the runtime reports that and ends the program, but only where no
// session keeps threads and timers. OnError may write down what was sampled until then.
var ErrDeadlock = deadlock.Err

// Allowed returns why sampling cannot be started here and now, nil if nothing is known
// that speaks against it. It also tries whether the system gives the threads that a session
// needs. Start asks it too.
func Allowed() error {
	if inBubble() {
		return ErrBubble
	}
	return room()
}

// inBubble reports whether the calling goroutine is in a synctest bubble. Only the header
// of its stack trace says so: "goroutine 8 [running, synctest bubble 7]:".
func inBubble() bool {
	var buf [256]byte
	header, _, _ := bytes.Cut(buf[:runtime.Stack(buf[:], false)], []byte("]"))
	return bytes.Contains(header, []byte("synctest bubble"))
}
