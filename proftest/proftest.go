// Package proftest profiles a run of tests. Put this into a test file of the package:
//
//	func TestMain(m *testing.M) { proftest.Main(m) }
//
// Then a run is profiled if PROFILE_OUT is set:
//
//	PROFILE_OUT=x.tach go test -run X .
//
// The other PROFILE_ variables are those of package profiler.
package proftest

import (
	"os"
	"testing"

	"github.com/gotach/profiler"
)

// Main runs the tests as m.Run does, profiled if PROFILE_OUT is set, and exits
// with their code. A relative PROFILE_OUT is relative to the package's
// directory, where go test runs its tests; with several packages, %e keeps
// their files apart.
func Main(m *testing.M) {
	os.Exit(Run(m))
}

// Run is [Main] for a TestMain that has more to do: it returns the exit code,
// which is that of m.Run whatever happens to the profile.
func Run(m interface{ Run() int }) (code int) {
	if os.Getenv("PROFILE_OUT") != "" {
		s := profiler.Start()
		defer s.Stop() // what went wrong is logged there
	}
	return m.Run()
}
