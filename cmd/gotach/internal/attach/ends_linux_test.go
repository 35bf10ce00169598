//go:build amd64 || arm64

package attach

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"golang.org/x/sys/unix"
)

// held returns what this process has open of others: descriptors of perf events and of /proc, and rings.
func held(t *testing.T) (list []string) {
	for _, e := range testenv.Must(os.ReadDir("/proc/self/fd")) {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && (strings.Contains(to, "perf_event") || strings.HasPrefix(to, "/proc/") && strings.Contains(to, "stat")) {
			list = append(list, to)
		}
	}
	for line := range strings.Lines(string(testenv.Must(os.ReadFile("/proc/self/maps")))) {
		if strings.Contains(line, "perf_event") {
			list = append(list, line)
		}
	}
	return list
}

// A program is recorded again and again, and nothing is left of it here.
func TestAttaches(t *testing.T) {
	testenv.Long(t)
	x := start(t, build(t, "", "-ldflags=-s -w"), "move")
	dir := t.TempDir()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // a sync.Pool keeps what it has for two collections
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var before uint64
	const warm = 5
	for i := range testenv.Times(9, 1000) {
		if i == warm {
			before = heap()
		}
		path := fmt.Sprintf("%s/%d.tach", dir, i%2)
		r := recordTo(t, x, path, 3, func(stop func()) { stop() })
		f := testenv.Must(reader.Open(path))
		endsAs(t, r, f, "")
		f.Close()
	}
	testenv.SameList(t, "left", held(t), nil)
	testenv.Within(t, "bytes in use", heap(), 0, before+1<<20)
}

// Programs are killed at any moment. Each recording ends, and its file is whole and says of what it is.
func TestDies(t *testing.T) {
	program := build(t, "", "-ldflags=-s -w")
	for range testenv.Times(testenv.Brief(1, 3), 100) {
		x := start(t, program, "move", "burn")
		at := rand.Int64N(30)
		killed := make(chan struct{})
		r, f := record(t, x, at+1, func(func()) {
			go func() { // while the next ticks are taken
				defer close(killed)
				for range rand.IntN(1000) {
					runtime.Gosched()
				}
				testenv.OK(t, syscall.Kill(x.pid, syscall.SIGKILL))
			}()
		})
		<-killed
		endsAs(t, r, f, "the process has ended")
		s := testenv.Must(f.Metadata()).Session
		testenv.FailIf(t, s.Executable != program || s.Duration <= 0 || s.TicksReached <= at, "killed after tick %d: session %+v", at, s)
	}
	testenv.SameList(t, "left", held(t), nil)
}

// endsAs checks why a recording ended, "" if it was stopped, and that its file is whole.
func endsAs(t *testing.T, r *Recording, f *reader.Reader, why string) {
	t.Helper()
	testenv.Fails(t, "the recording", r.Ended, why)
	n := 0
	for range testenv.All(t, f.Samples()) {
		n++
	}
	testenv.FailIf(t, n < 31 || r.MaxGoroutines < 31, "%d samples: %+v", n, r)
}

// A program that runs another one in its place ends the recording.
func TestExec(t *testing.T) {
	x := start(t, build(t, "", "-ldflags=-s -w"))
	r, f := record(t, x, 20, func(func()) { testenv.Must(fmt.Fprintln(x.in, "exec")) })
	endsAs(t, r, f, "the process runs another program now")
}

// One that is stopped, by a signal or a debugger, is recorded all the same, and stays as it is.
func TestStopped(t *testing.T) {
	x := start(t, build(t, "", "-ldflags=-s -w"))
	testenv.OK(t, syscall.Kill(x.pid, syscall.SIGSTOP))
	r, f := record(t, x, 20, func(stop func()) { stop() })
	endsAs(t, r, f, "")
	testenv.OK(t, syscall.Kill(x.pid, syscall.SIGCONT))
	runtime.LockOSThread() // only this thread may let it go
	defer runtime.UnlockOSThread()
	if err := unix.PtraceAttach(x.pid); err != nil {
		testenv.Skip(t, "ptrace: "+err.Error())
	}
	var status unix.WaitStatus
	testenv.Must(unix.Wait4(x.pid, &status, 0, nil))
	r, f = record(t, x, 20, func(stop func()) { stop() })
	endsAs(t, r, f, "")
	stat := string(testenv.Must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", x.pid))))
	testenv.Same(t, "its state", strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])[0], "t")
	testenv.OK(t, unix.PtraceDetach(x.pid))
	testenv.FailIf(t, len(x.stack(t)) < 31, "it does not go on")
}

// A process can be read from its begin, also where the kernel has not mapped its program yet.
func TestOpenEarly(t *testing.T) {
	program := build(t, "", "-ldflags=-s -w")
	for range testenv.Times(2, 100) {
		_ = testenv.Must(Open(t.Context(), launch(t, nil, program).pid))
	}
}
