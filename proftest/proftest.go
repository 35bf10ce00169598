// Package proftest profiles a test run. Put this into a test file of the package under test:
//
//	func TestMain(m *testing.M) { proftest.Main(m) }
//
// Then a run is profiled if PROFILE_OUT is set:
//
//	PROFILE_OUT=x.tach go test -run X .
//
// The other PROFILE_ variables of package profiler apply too.
package proftest

import (
	"os"
	"testing"

	"github.com/gotach/profiler"
)

// Main calls m.Run and exits with its code. It profiles the run if PROFILE_OUT is set. A
// relative PROFILE_OUT is relative to the package's directory, where go test runs the
// tests. For several packages use %e in PROFILE_OUT, so that each has its own file.
func Main(m *testing.M) {
	os.Exit(Run(m))
}

// Run works like [Main], but returns the exit code instead of exiting, for a TestMain that
// has more to do. The code is that of m.Run, also if profiling fails.
func Run(m interface{ Run() int }) (code int) {
	if os.Getenv("PROFILE_OUT") != "" {
		s := profiler.Start()
		defer s.Stop() // logs its error
	}
	return m.Run()
}
