//go:build amd64 || arm64

package attach

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// record records a target until after has been called with so many ticks, and reads the file.
func record(t *testing.T, x *target, ticks int64, after func(stop func()), noPerf ...bool) (*Recording, *reader.Reader) {
	path := filepath.Join(t.TempDir(), "x.tach")
	r := recordTo(t, x, path, ticks, after, noPerf...)
	f := testenv.Must(reader.Open(path))
	t.Cleanup(func() { f.Close() })
	return r, f
}

func recordTo(t *testing.T, x *target, path string, ticks int64, after func(stop func()), noPerf ...bool) *Recording {
	p := testenv.Must(Open(x.pid))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := testenv.Must(p.Record(ctx, path, Options{Interval: time.Millisecond, Budget: 100, noPerf: len(noPerf) > 0, Progress: func(n int64, _ time.Duration, _ string) {
		if n == ticks {
			after(cancel)
		}
	}}))
	if _, err := os.Stat(path + ".journal"); err == nil {
		t.Error("there is a journal: the file was not finished")
	}
	return r
}

// A goroutine that waits has samples with what the program says of it, for all the time. What runs has calls of its own, and their CPU time is all of the process's.
func TestRecord(t *testing.T) {
	program := build(t, "", "-ldflags=-s -w")
	t.Run("perf", func(t *testing.T) { testRecord(t, program) })
	t.Run("no perf", func(t *testing.T) { testRecord(t, program, true) })
}

// samples are those of a file, with their weights.
func samples(f *reader.Reader) *stream.Source {
	return testenv.Must(stream.New([]stream.File{{Stream: f}}, stream.Options{}))
}

// withObjects are the samples of a file and the objects that goroutines waited for.
func withObjects(t *testing.T, path string) (*stream.Source, map[int32]tachyon.Object) {
	f := testenv.Must(reader.Open(path))
	t.Cleanup(func() { f.Close() })
	src := testenv.Must(stream.New([]stream.File{{Stream: f}}, stream.Options{Objects: true}))
	return src, testenv.Must(src.Objects())
}

// wallOf sums up the time of files that follow each other, by the function that waits. n is the number of samples.
func wallOf(t *testing.T, paths ...string) (sums map[string]time.Duration, n int) {
	var files []stream.File
	for _, path := range paths {
		f := testenv.Must(reader.Open(path))
		defer f.Close()
		files = append(files, stream.File{Stream: f})
	}
	src := testenv.Must(stream.New(files, stream.Options{}))
	sums = map[string]time.Duration{}
	for x := range testenv.All(t, src.Samples()) {
		sums[src.Frames()[src.AppendStack(nil, x.Stack)[1]].Func] += x.Wall
		n++
	}
	return sums, n
}

// A recording has GOMAXPROCS, also if the program has set it, and the CPUs that the program may use, which are not those of the recorder.
func TestProcs(t *testing.T) {
	t.Setenv("GOMAXPROCS", "3")
	program := build(t, "", "-ldflags=-s -w")
	testProcs(t, start(t, program), 3)
	testProcs(t, start(t, program, "one"), 1)
}

func testProcs(t *testing.T, x *target, procs int) {
	var all, one unix.CPUSet
	testenv.OK(t, unix.SchedGetaffinity(x.pid, &all))
	for i := range 1 << 10 {
		if all.IsSet(i) {
			one.Set(i)
			break
		}
	}
	testenv.OK(t, unix.SchedSetaffinity(x.pid, &one))
	_, f := record(t, x, 5, func(stop func()) { stop() })
	if s := testenv.Must(f.Metadata()).Session; s.GOMAXPROCS != procs || s.CPUs <= 0 || s.CPUs > 1 {
		t.Errorf("GOMAXPROCS %d, want %d; %v CPUs", s.GOMAXPROCS, procs, s.CPUs)
	}
}

func testRecord(t *testing.T, program string, noPerf ...bool) {
	x := start(t, program, "move", "burn")
	before := x.stack(t)
	r, f := record(t, x, 200, func(stop func()) { stop() }, noPerf...)
	after := x.stack(t)
	testenv.OK(t, r.Ended)
	m := testenv.Must(f.Metadata())
	known := map[uint64]tachyon.Goroutine{}
	for _, g := range m.Goroutines {
		known[g.ID] = g
	}
	if s := m.Session; s.Source != sourceName || s.PID != x.pid || s.GoVersion == "" || s.TicksReached < 200 || s.Duration != r.Duration || s.ProcessCPU == 0 {
		t.Errorf("session %+v", s)
	}
	sums, on, n := map[uint64]time.Duration{}, time.Duration(0), 0
	calls := map[string]time.Duration{} // CPU time
	src := samples(f)
	for s := range testenv.All(t, src.Samples()) {
		n++
		on += s.CPU()
		var frames []Frame
		for _, id := range src.AppendStack(nil, s.Stack) {
			fr := src.Frames()[id]
			frames = append(frames, Frame{Func: fr.Func, File: fr.File, Line: fr.Line})
		}
		if s.Interpreter != tachyon.User {
			continue
		}
		sums[s.Goroutine] += s.Wall
		for _, fr := range frames {
			calls[fr.Func] += s.CPU()
		}
		switch want := before[s.Goroutine]; {
		case frames[0].Func == tachyon.FuncNotRead:
			if len(frames) != 2 || s.Status&tachyon.HasGIL == 0 {
				t.Errorf("goroutine %d runs in %v, status %v", s.Goroutine, frames, s.Status)
			}
		case s.Status&tachyon.HasGIL != 0:
			// What ends has left its function.
			if last := frames[len(frames)-1].Func; s.Goroutine != 1 && !strings.HasPrefix(last, "main.") && last != "runtime.goexit1" {
				t.Errorf("goroutine %d runs in %v, status %v", s.Goroutine, frames, s.Status)
			}
		case s.Goroutine == 1 || want.ID == 0 || want.State == "running" || want.State == "runnable" || !reflect.DeepEqual(want, after[s.Goroutine]) || moves(want):
		case frames[0].Func != "["+want.State+"]" || !reflect.DeepEqual(shownFrames(frames[1:]), want.Frames):
			t.Fatalf("goroutine %d: %v %v\nwant %v %v", s.Goroutine, s.Status, frames, want.State, want.Frames)
		}
	}
	still := 0
	for id, want := range before {
		if !reflect.DeepEqual(want, after[id]) || want.State == "running" || want.State == "runnable" || moves(want) {
			continue
		}
		still++
		g := known[id]
		if g.Parent != want.Parent || g.CreatedBy != want.CreatedBy || id != 1 && g.CreatedAt != want.CreatedAt {
			t.Errorf("goroutine %d: %+v, want %+v", id, g, want)
		}
		if time.Duration(g.Last)*time.Microsecond != r.Duration.Truncate(time.Microsecond) || sums[id] < r.Duration-2*time.Microsecond || sums[id] > r.Duration {
			t.Errorf("goroutine %d has %v in samples, until %d µs; the recording is %v", id, sums[id], g.Last, r.Duration)
		}
	}
	if still < 31 {
		t.Errorf("%d goroutines wait", still)
	}
	if no := r.NoPerf != nil; no != (m.Session.SourceReason == sourceNote) || len(noPerf) > 0 && !no {
		t.Errorf("%v, and the file says %q", r.NoPerf, m.Session.SourceReason)
	}
	if r.NoPerf != nil { // the kernel allows no perf events: who used a core is guessed
		if on == 0 || on > m.Session.ProcessCPU+r.Duration {
			t.Errorf("CPU time %v of %v", on, m.Session.ProcessCPU)
		}
	} else if off := on - m.Session.ProcessCPU; off.Abs() > time.Duration(n)*time.Microsecond+m.Session.ProcessCPU/50 || calls["main.burn"] == 0 {
		t.Errorf("CPU time %v of %v: %v", on, m.Session.ProcessCPU, calls)
	}
	labelled := 0
	for _, g := range known {
		if len(g.Labels) > 0 && reflect.DeepEqual(g.Labels[0].Labels, map[string]string{"tenant": "a", "kind": "test"}) {
			labelled++
		}
	}
	testenv.Same(t, "goroutines with the labels", labelled, 1)
}

// Goroutines that move and grow their stacks all the time have no stack that does not exist.
func TestInvariant(t *testing.T) { testInvariant(t, build(t, "", "-ldflags=-s -w")) }

func testInvariant(t *testing.T, program string) {
	x := start(t, program, "chains")
	r, f := record(t, x, int64(testenv.Times(300, 60_000)), func(stop func()) { stop() })
	callers := map[string]string{"a": "c", "b": "a", "c": "b", "x": "z", "y": "x", "z": "y"}
	src := samples(f)
	n, deep := 0, 0
	for s := range testenv.All(t, src.Samples()) {
		var names []string
		for _, id := range src.AppendStack(nil, s.Stack) {
			names = append(names, src.Frames()[id].Func)
		}
		n++
		for i, name := range names {
			name, ours := strings.CutPrefix(name, "main.")
			caller := ""
			if i+1 < len(names) {
				caller = strings.TrimPrefix(names[i+1], "main.")
			}
			switch want, isCall := callers[name]; {
			case !ours || name == "tip" && (callers[caller] != ""):
			case name == "tip", isCall && caller != want && (caller != "chains" || name != "a" && name != "x"):
				t.Fatalf("main.%s is called by %q: %v", name, caller, names)
			case isCall:
				deep++
			}
		}
	}
	if deep < 1000 {
		t.Errorf("%d calls of the chains in %d samples", deep, n)
	}
	t.Logf("%d samples, %d calls, %d torn", n, deep, r.Torn)
}
