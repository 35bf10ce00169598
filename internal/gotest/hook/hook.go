// Package hook runs inside test binaries that "gotach test" has built. There package testing
// calls it. It records a profile, and beside it when each test began and ended:
//
//	package "example.com/m/p"
//	begin 21 1795234224000000 "TestA/sub"
//	end 21 1795234224000931
//	error "why there is no profile, or why it is not complete"
//
// 21 is a goroutine. A time is in µs since 1970. It follows the monotonic clock, like those of samples.
package hook

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
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
	// Restore has variables that go test needed and the tests must not see: NAME=VALUE, or NAME for one
	// that was not set. They are separated by Separator.
	Restore   = "GOTACH_TEST_RESTORE"
	Separator = "\x1f"
)

// The time in these functions is their caller's.
var _ = own.Hide(Start, Stop, Begin, End)

// A recording is the profile of this process.
type recording struct {
	session *profiler.Session
	base    time.Time

	label bool // tests get a pprof label, which the goroutines that they start inherit

	mu    sync.Mutex
	tests *os.File
}

var running *recording

// Start begins the profile. The argument is the import path of the package under test. Start runs
// before TestMain, on the main goroutine.
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
	r := &recording{tests: f, base: time.Now()}
	r.write("package %q\n", importPath)
	// What go test prints must stay as it is, so warnings are dropped, and the error is recorded.
	oneFile := func(c *session.Config) error { c.OneFile = path + ".tach"; return nil }
	r.session, err = profiler.Open(oneFile, profiler.Logger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		r.write("error %q\n", err.Error())
	} else if r.session.Path() == "" {
		r.write("error %q\n", "PROFILE_SOURCE=off")
	}
	r.label = !printsLabels()
	running = r
}

// printsLabels reports whether stack traces have labels: with Go 1.27, or GODEBUG=tracebacklabels=1. Then tests get
// none, because some read traces.
func printsLabels() bool {
	setLabel("x")
	defer pprof.SetGoroutineLabels(context.Background())
	var b [64]byte
	head, _, _ := strings.Cut(string(b[:runtime.Stack(b[:], false)]), "\n")
	return !strings.HasSuffix(head, " [running]:")
}

func setLabel(test string) {
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("test", test)))
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

// Stop ends the profile. Further calls do nothing. M.Run calls it at its end.
func Stop() {
	if running == nil {
		return
	}
	if err := running.session.Stop(); err != nil {
		running.write("error %q\n", err.Error())
	}
	running.mu.Lock()
	defer running.mu.Unlock()
	if running.tests != nil {
		running.tests.Close()
		running.tests = nil
	}
}

// Begin says that a test, benchmark, fuzz target or example begins on the calling goroutine. It returns
// what [End] needs, 0 if there is no profile.
func Begin(name string) (goroutine uint64) {
	if running == nil || name == "" { // package testing runs all tests as one that has no name
		return 0
	}
	goroutine = current()
	running.write("begin %d %d %q\n", goroutine, running.now(), name)
	if running.label {
		setLabel(name)
	}
	return goroutine
}

// End says that what began on the goroutine is over.
func End(goroutine uint64) {
	if goroutine != 0 {
		if running.label {
			pprof.SetGoroutineLabels(context.Background())
		}
		running.write("end %d %d\n", goroutine, running.now())
	}
}

func (r *recording) now() int64 { return r.base.UnixMicro() + time.Since(r.base).Microseconds() }

// write writes a line at once, so that it is in the file if the process is killed.
func (r *recording) write(format string, args ...any) {
	line := fmt.Appendf(nil, format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tests != nil {
		_, _ = r.tests.Write(line) // nobody can be told
	}
}

// current returns the id of the calling goroutine, 0 if unknown.
func current() uint64 {
	var b [64]byte
	text, _ := strings.CutPrefix(string(b[:runtime.Stack(b[:], false)]), "goroutine ")
	digits, _, _ := strings.Cut(text, " ")
	id, _ := strconv.ParseUint(digits, 10, 64)
	return id
}
