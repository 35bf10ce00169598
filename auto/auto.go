// Package auto starts a profiling session from the environment, for programs
// that import it and say nothing more:
//
//	import _ "github.com/gotach/profiler/auto"
//
// With PROFILE_OUT set a session starts before main does, and ends, with a
// finished file, when the program gets SIGINT or SIGTERM. The program's own
// behaviour stays what it was: it dies of the signal, or its own handler gets
// it, once. Without PROFILE_OUT nothing is started. The other PROFILE_ variables
// are those of package profiler.
//
// Go has no hook at the end of main: a program that returns from main by itself
// calls [Stop] there, or uses profiler.Start.
package auto

import (
	"os"

	"github.com/gotach/profiler"
)

var (
	session  *profiler.Session // nil without PROFILE_OUT
	endWatch = func() {}       // of signals
)

func init() {
	if os.Getenv("PROFILE_OUT") == "" {
		return
	}
	session = profiler.Start()
	if session.Err() == nil {
		endWatch = stopOnSignal()
	}
}

// Stop ends the session, if there is one, and finishes its file; nothing of it is
// left running, and signals are the program's alone. It may be called several
// times and from any goroutine.
func Stop() error {
	err := session.Stop()
	endWatch()
	return err
}
