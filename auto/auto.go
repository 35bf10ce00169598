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
// # Signals
//
// Many servers exit some milliseconds after SIGTERM. The file takes about as long. So on
// Linux (amd64 and arm64) the file is finished first, and the program gets the signal
// then: mostly after 10 to 20 ms, with many goroutines or on a busy machine after 200 ms
// at most, whether the file is finished or not. A second signal is not delayed. From the
// first signal on, or from [Stop] on, the program has its signals as without this package.
//
// On other Unix systems, and where C code handles one of these signals, the program gets
// the signal at the same time as this package.
//
// A file that is not finished loses nothing older than a tenth of a second: gotach reads it
// together with its journal.
//
// # The end of main
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
