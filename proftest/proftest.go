// Package proftest profiles a test run. Put this into a test file of the package under test:
//
//	func TestMain(m *testing.M) { proftest.Main(m) }
//
// Then a run is profiled if PROFILE_OUT is set:
//
//	PROFILE_OUT=x.tach go test -run X .
//
// The other PROFILE_ variables of package profiler apply too. Nobody waits for the answers of a
// test, so the default of PROFILE_BUDGET is 10 here.
package proftest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/writer"
)

// Main calls m.Run and exits with its code. It profiles the run if PROFILE_OUT is set. A relative
// PROFILE_OUT is relative to the package's directory, where go test runs the tests. If several
// packages have the same file, because PROFILE_OUT is absolute, those that come later write their
// own ones beside it, with a warning. With %e in PROFILE_OUT each has the name of its package.
func Main(m *testing.M) {
	os.Exit(Run(m))
}

// Run works like [Main], but returns the exit code instead of exiting, for a TestMain that
// has more to do. The code is that of m.Run, also if profiling fails.
func Run(m interface{ Run() int }) (code int) {
	if out := os.Getenv(variable); out != "" && os.Getenv("PROFILE_SOURCE") != string(profiler.Off) {
		s := start(out)
		defer s.Stop() // logs its error
	}
	return m.Run()
}

const variable = "PROFILE_OUT"

// budget is the default of PROFILE_BUDGET.
var budget = profiler.Budget(10)

// start begins a session. If the file out is for the profile of another package of this go test, or
// if another process is writing it, the session writes a file beside it.
func start(out string) *profiler.Session {
	if strings.Contains(out, "%") {
		return profiler.Start(budget)
	}
	defer os.Setenv(variable, out)
	program, _ := os.Executable()
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	name = strings.TrimSuffix(name, ".test")
	ext := filepath.Ext(out)
	base := strings.TrimSuffix(out, ext)
	for _, path := range []string{out, base + "-" + name + ext} {
		if !claim(path, program) {
			continue
		}
		os.Setenv(variable, path)
		s, err := profiler.Open(budget)
		if err == nil {
			warn(out, path)
			return s
		}
		// Another process may have locked the file and not made it yet, so the error tells, not
		// whether the file is there.
		if _, there := os.Stat(path); there != nil && !errors.Is(err, writer.ErrBusy) {
			return profiler.Start(budget) // logs the error
		}
	}
	path := fmt.Sprintf("%s-%s-%d%s", base, name, os.Getpid(), ext)
	os.Setenv(variable, path)
	warn(out, path)
	return profiler.Start(budget)
}

func warn(out, path string) {
	if path != out {
		slog.Warn("gotach: the file has the profile of another package", "file", out, "written", path)
	}
}

// claim reports whether a test program may write a file. The first program of a run of go test that
// asks may, and it may again; the others may not. So they need not look at the file, which the
// first one may not have made yet, or may be finishing.
//
// go test builds the programs of a run below one directory, go-build and a number, which it
// deletes. A claim is a directory there, with a file that is named after the program. Programs that
// go test did not build may write any file.
func claim(path, program string) bool {
	dir := filepath.Dir(program)
	run := filepath.Dir(dir)
	if !strings.HasPrefix(filepath.Base(run), "go-build") {
		return true
	}
	if full, err := filepath.Abs(path); err == nil {
		path = full
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(path))
	claims := filepath.Join(run, fmt.Sprintf("gotach-%016x", h.Sum64()))
	own := filepath.Join(claims, filepath.Base(dir)+"-"+filepath.Base(program))
	if err := os.Mkdir(claims, 0o700); err == nil {
		return os.WriteFile(own, nil, 0o600) == nil
	} else if !errors.Is(err, fs.ErrExist) {
		return true // claims are impossible
	}
	_, err := os.Stat(own)
	return err == nil
}
