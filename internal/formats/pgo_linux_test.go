package formats

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// hot is a function with a call 2 lines below its first.
//
//go:noinline
func hot() []tachyon.Frame {
	// This is the line after the first one.
	return here()
}

// here returns the stack of its caller, without the tests' own.
//
//go:noinline
func here() (list []tachyon.Frame) {
	var pcs [4]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for f, more := frames.Next(); more && len(list) < 2; f, more = frames.Next() {
		list = append(list, tachyon.Frame{File: f.File, Func: f.Function, Line: int32(f.Line)})
	}
	return list
}

// cpuSession writes a file of a program that is this test: 1 s on a CPU in here, called by hot, 500 ms in a
// system call, 9 s asleep and 1 s of no goroutine.
func cpuSession(t *testing.T, executable, id string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.tach")
	const start = 1_795_234_224_000_000
	w := testenv.Must(writer.Create(path, writer.Options{Start: start, Interval: 1000}))
	stack := hot()
	wait := func(name string) []tachyon.Frame { return append([]tachyon.Frame{{Func: name}}, stack...) }
	add := func(at uint64, interpreter uint32, s tachyon.Status, frames ...tachyon.Frame) {
		testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: 1, Interpreter: interpreter, Time: start + at, Status: s}, frames))
	}
	add(0, 0, 0, wait("[sleep]")...)
	add(9_000_000, 0, 0, wait("[sleep]")...)
	add(10_000_000, 0, tachyon.HasGIL|tachyon.OnCPU, stack...)
	add(10_500_000, 0, tachyon.Unknown|tachyon.OnCPU, wait("[syscall]")...)
	add(0, tachyon.Process, 0, tachyon.Frame{Func: tachyon.FuncScheduler})
	add(1_000_000, tachyon.Process, tachyon.OnCPU, tachyon.Frame{Func: tachyon.FuncScheduler})
	testenv.OK(t, w.AddMetadata(tachyon.KindSession, tachyon.Session{Markers: true, Executable: executable, BuildID: id, Duration: 11 * time.Second}))
	testenv.OK(t, w.Close())
	return path
}

// go build -pgo takes a profile of CPU time: the tool that reads it for the compiler finds the call, its weight
// and its line within the function.
func TestPGO(t *testing.T) {
	image := self(t)
	path := cpuSession(t, image.Path, image.BuildID)
	out := filepath.Join(t.TempDir(), "default.pgo")
	warn := func(err error) { t.Error(err) }
	testenv.OK(t, convert(path, out, "pprof", Options{CPU: true, Warn: warn}))
	got, err := exec.Command("go", "tool", "preprofile", "-i", out).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	want := "formats.hot\ngithub.com/gotach/profiler/internal/formats.here\n2 1500000000\n"
	if !strings.Contains(string(got), want) {
		t.Errorf("the compiler would read\n%s, want\n%s", got, want)
	}
	r := testenv.Must(openInput(t, out, Options{}).Report(profile.ReportOptions{}))
	if r.Total != 2500*time.Millisecond || r.TotalCPU != r.Total || len(r.Rows) != 3 {
		t.Errorf("%v, %v on CPU, %+v", r.Total, r.TotalCPU, r.Rows)
	}

	// Without the executable there is a profile, and a warning.
	path = cpuSession(t, image.Path, "other")
	var warned bytes.Buffer
	o := Options{CPU: true, Warn: func(err error) { fmt.Fprintln(&warned, err) }}
	testenv.OK(t, convert(path, out, "pprof", o))
	if !strings.Contains(warned.String(), "its build ID is another one") {
		t.Errorf("warned of %q", warned.String())
	}
	// A file that go build reads is not written then.
	refused := filepath.Join(t.TempDir(), "default.pgo")
	testenv.Fails(t, "without the executable", convert(path, refused, "pprof", Options{CPU: true, PGO: true, Warn: warn}), "its build ID is another one")
	if _, err := os.Stat(refused); !os.IsNotExist(err) {
		t.Errorf("the file that go build would refuse is there: %v", err)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	b, err := os.ReadFile(image.Path)
	if err == nil {
		err = os.WriteFile(copied, b, 0o600)
	}
	testenv.OK(t, err)
	testenv.OK(t, convert(path, out, "pprof", Options{CPU: true, Warn: warn, Executable: copied}))
}
