// Package auto profiles a program from the environment alone. Import it for its
// effect:
//
//	import _ "github.com/gotach/profiler/auto"
//
// If PROFILE_OUT is set, a session starts before main does. It ends, with a finished
// file, when the program gets SIGINT or SIGTERM. The signal still has its usual
// effect: it ends the program, or the program's own handler gets it, once.
// Without PROFILE_OUT no session starts. Package profiler describes the other
// PROFILE_ variables.
//
// Go has no hook at the end of main: a program that returns from main must call
// [Stop] there, or use profiler.Start instead of this package.
package auto

import (
	"os"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/own"
)

var (
	session  *profiler.Session // nil without PROFILE_OUT
	endWatch = func() {}       // ends the watch for signals
)

// The time in Stop is its caller's.
var _ = own.Hide(Stop)

func init() {
	own.HideCaller()
	if os.Getenv("PROFILE_OUT") == "" {
		return
	}
	session = profiler.Start()
	if session.Err() == nil {
		endWatch = stopOnSignal()
	}
}

// Stop ends the session, if there is one, finishes its file, and no longer watches
// for signals. It returns the session's first error. It may be called several times
// and from any goroutine.
func Stop() error {
	err := session.Stop()
	endWatch()
	return err
}
