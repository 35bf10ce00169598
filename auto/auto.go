// Package auto profiles a program from the environment alone. Import it for its
// effect:
//
//	import _ "github.com/gotach/profiler/auto"
//
// If PROFILE_OUT is set, a session starts before main does. Without PROFILE_OUT no
// session starts. Package profiler describes the other PROFILE_ variables.
//
// # The end of the program
//
// Go has no hook at the end of main: a program that returns from main must call
// [Stop] there, or use profiler.Start instead of this package.
//
// This package handles no signals. A program that a signal ends, such as SIGTERM or
// Ctrl-C, leaves an unfinished file and a journal beside it, as after os.Exit. All
// commands of gotach read the two together. Package profiler says what is missing at
// their end. Exports and proven leaks are written by Stop alone. So a server that
// handles SIGTERM should call Stop before it exits.
package auto

import (
	"os"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/own"
)

var session *profiler.Session // nil without PROFILE_OUT

// The time in Stop is its caller's.
var _ = own.Hide(Stop)

func init() {
	own.HideCaller()
	if os.Getenv("PROFILE_OUT") != "" {
		session = profiler.Start()
	}
}

// Stop ends the session, if there is one, and finishes its file. It returns the
// session's first error. It may be called several times and from any goroutine.
func Stop() error { return session.Stop() }
