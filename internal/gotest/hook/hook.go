// Package hook runs inside test binaries that "gotach test" has built. A file that is added to the
// package under test calls it. It records a profile, and beside it what is tested:
//
//	package "example.com/m/p"
//	error "why there is no profile, or why it is not complete"
package hook

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/session"
)

// The variables that tell a test binary what to do. Start removes them, so that the tests and the
// programs that they start do not see them.
const (
	// Dir names the directory for the files. Without it there is no profile.
	Dir = "GOTACH_TEST_DIR"
	// Restore has variables that go test needed and the tests must not see: NAME=VALUE, or NAME for
	// one that was not set. They are separated by Separator.
	Restore   = "GOTACH_TEST_RESTORE"
	Separator = "\x1f"
)

// budget is the default of PROFILE_BUDGET, in percent: nobody waits for the answers of a test.
const budget = 10

// Stacks leave these functions out: the time in them is that of their caller.
var _ = own.Hide(Start, Stop)

// A recording is the profile of this process.
type recording struct {
	session *profiler.Session
	about   *os.File
}

var running *recording

// Start begins the profile. The argument is the import path of the package under test. Start runs
// in an init function, on the main goroutine.
func Start(importPath string) {
	dir := os.Getenv(Dir)
	if dir == "" {
		return
	}
	os.Unsetenv(Dir)
	restore()
	path := filepath.Join(dir, strconv.Itoa(os.Getpid()))
	f, err := os.OpenFile(path+".tests", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return // gotach test says that there is no profile of this package
	}
	r := &recording{about: f}
	r.write("package %q\n", importPath)
	before := runtime.NumGoroutine()
	// What go test prints must stay as it is, so warnings are dropped, and the error is recorded.
	oneFile := func(c *session.Config) error { c.OneFile = path + ".tach"; return nil }
	r.session, err = profiler.Open(oneFile, profiler.Budget(budget), profiler.Logger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		r.write("error %q\n", err.Error())
	} else if r.session.Path() == "" {
		r.write("error %q\n", "PROFILE_SOURCE=off")
	}
	// What Open checks it checks with goroutines that the runtime counts. They end when they have a
	// core.
	for end := time.Now().Add(time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); {
		time.Sleep(100 * time.Microsecond)
	}
	running = r
}

// restore sets the variables that Restore lists to what they were.
func restore() {
	text, ok := os.LookupEnv(Restore)
	if !ok {
		return
	}
	os.Unsetenv(Restore)
	for kv := range strings.SplitSeq(text, Separator) {
		if name, value, ok := strings.Cut(kv, "="); ok {
			os.Setenv(name, value)
		} else {
			os.Unsetenv(name)
		}
	}
}

// Stop ends the profile, when the tests have ended.
func Stop() {
	if running == nil {
		return
	}
	if err := running.session.Stop(); err != nil {
		running.write("error %q\n", err.Error())
	}
	running.about.Close()
}

// write writes a line at once, so that it is in the file if the process is killed.
func (r *recording) write(format string, args ...any) {
	_, _ = r.about.Write(fmt.Appendf(nil, format, args...)) // nobody can be told
}
