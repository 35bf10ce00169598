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
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/writer"
)

// Main calls m.Run and exits with its code. It profiles the run if PROFILE_OUT is set. A
// relative PROFILE_OUT is relative to the package's directory, where go test runs the
// tests. If several packages have the same file, because PROFILE_OUT is absolute, those that come later write
// their own ones beside it, with a warning. With %e in PROFILE_OUT each has the name of its package.
func Main(m *testing.M) {
	os.Exit(Run(m))
}

// Run works like [Main], but returns the exit code instead of exiting, for a TestMain that
// has more to do. The code is that of m.Run, also if profiling fails.
func Run(m interface{ Run() int }) (code int) {
	if out := os.Getenv(variable); out != "" {
		s := start(out)
		defer s.Stop() // logs its error
	}
	return m.Run()
}

const variable = "PROFILE_OUT"

// start begins a session. If the file out has the profile of another package of this go test, or if another
// process is writing it, the session writes a file beside it.
func start(out string) *profiler.Session {
	if strings.Contains(out, "%") {
		return profiler.Start()
	}
	defer os.Setenv(variable, out)
	program, _ := os.Executable()
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	name = strings.TrimSuffix(name, ".test")
	ext := filepath.Ext(out)
	base := strings.TrimSuffix(out, ext)
	for _, path := range []string{out, base + "-" + name + ext} {
		if ofOther(path, program) {
			continue
		}
		os.Setenv(variable, path)
		s, err := profiler.Open()
		if err == nil {
			warn(out, path)
			return s
		}
		// Another process may have locked the file and not made it yet, so the error tells, not whether the file is there.
		if _, there := os.Stat(path); there != nil && !errors.Is(err, writer.ErrBusy) {
			return profiler.Start() // logs the error
		}
	}
	path := fmt.Sprintf("%s-%s-%d%s", base, name, os.Getpid(), ext)
	os.Setenv(variable, path)
	warn(out, path)
	return profiler.Start()
}

func warn(out, path string) {
	if path != out {
		slog.Warn("gotach: the file has the profile of another package", "file", out, "written", path)
	}
}

// ofOther reports whether a file has the profile of another test program of this run of go test. go test
// builds the programs of a run below one directory, go-build and a number.
func ofOther(path, program string) bool {
	r, err := reader.Open(path)
	if err != nil {
		return false
	}
	defer r.Close()
	m, err := r.Overview()
	if err != nil || m.Session == nil || m.Session.Executable == program {
		return false
	}
	run := filepath.Dir(filepath.Dir(program))
	return strings.HasPrefix(filepath.Base(run), "go-build") && filepath.Dir(filepath.Dir(m.Session.Executable)) == run
}
