package formats

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv/cmp"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// wholeFile writes part of a session with all that a source records: goroutines in every
// state, the runtime's, CPU time of no goroutine, numbers of objects, and time not seen. The
// profile has the rows of wholeRows for each part.
func wholeFile(t *testing.T, path string, part int, edit func(*tachyon.Session), pcs ...*tachyon.LeafPCs) {
	t.Helper()
	const ms = 1000
	start := uint64(joinStart + (part-1)*100*ms)
	w := testenv.Must(writer.Create(path, writer.Options{Start: start, Interval: ms, NoJournal: true}))
	const (
		on     = tachyon.HasGIL | tachyon.OnCPU
		pseudo = tachyon.FirstPseudo
	)
	work := tachyon.Frame{File: "/src/main.go", Func: "main.work", Line: 7}
	mark := tachyon.Frame{File: "/go/src/runtime/mgc.go", Func: "runtime.gcBgMarkWorker", Line: 1400}
	call := tachyon.Frame{File: "/go/src/runtime/cgocall.go", Func: "runtime.cgocall", Line: 157}
	read := tachyon.Frame{File: "/go/src/syscall/z.go", Func: "syscall.read", Line: 1}
	wait := func(reason string, object int32) tachyon.Frame { return tachyon.Frame{Func: reason, Line: object} }
	add := func(id uint64, interpreter uint32, at uint64, s tachyon.Status, stack ...tachyon.Frame) {
		t.Helper()
		testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: id, Interpreter: interpreter, Time: start + at*ms, Status: s}, stack))
	}
	// One thread after the other, as writers do with repeats.
	for i, s := range []struct {
		status tachyon.Status
		stack  []tachyon.Frame
	}{
		{on, []tachyon.Frame{work}},
		{tachyon.HasGIL, []tachyon.Frame{work}},
		{tachyon.GILRequested, []tachyon.Frame{wait(tachyon.FuncRunnable, 0), work}},
		{tachyon.Unknown | tachyon.OnCPU, []tachyon.Frame{read, work}},
		{tachyon.Unknown, []tachyon.Frame{wait("[syscall]", 0), read, work}},
		{tachyon.Unknown | tachyon.OnCPU, []tachyon.Frame{call, work}},
		{tachyon.Unknown, []tachyon.Frame{wait("[syscall]", 0), call, work}},
		{0, []tachyon.Frame{wait("[sync.Mutex.Lock]", 17), work}},
		{0, []tachyon.Frame{wait("[sync.Mutex.Lock]", 18), work}},
	} {
		add(1, tachyon.User, uint64(i+1)*10, s.status, s.stack...)
	}
	add(2, tachyon.User, 49, tachyon.GILRequested, wait(tachyon.FuncNotStarted, 0)) // whose function later samples tell
	add(2, tachyon.User, 50, tachyon.GILRequested, wait(tachyon.FuncNotStarted, 0), work)
	add(3, tachyon.Runtime, 10, 0, wait("[GC worker (idle)]", 0), mark) // the same number in each part
	add(3, tachyon.Runtime, 60, 0, wait("[GC worker (idle)]", 0), mark)
	add(3, tachyon.Runtime, 68, on, mark)
	for i, name := range []string{tachyon.FuncScheduler, tachyon.FuncC, tachyon.FuncC, tachyon.FuncProfiler} {
		add(pseudo+uint64(i), tachyon.Process, 10, 0, wait(name, 0))
		add(pseudo+uint64(i), tachyon.Process, 10+uint64(i+1)*4, tachyon.OnCPU, wait(name, 0))
	}
	session := tachyon.Session{
		Program: "app", Host: "box", PID: 4711, Source: "native", Markers: true,
		Start: time.UnixMicro(int64(start)), SessionStart: time.UnixMicro(joinStart), Part: part,
		Duration: 100 * time.Millisecond, Objects: tachyon.OnlyChannels,
		Counts: tachyon.Counts{Samples: 22, NotSeen: 25 * time.Millisecond},
	}
	if edit != nil {
		edit(&session)
	}
	testenv.OK(t, w.AddMetadata(tachyon.KindSession, session))
	for _, p := range pcs {
		testenv.OK(t, w.AddMetadata(tachyon.KindPCs, p))
	}
	goroutines := []tachyon.Goroutine{{ID: 1, FirstWeight: 10 * ms}, {ID: 2, FirstWeight: ms}, {ID: 3, FirstWeight: 9 * ms}}
	testenv.OK(t, w.AddMetadata(tachyon.KindGoroutines, map[string]any{"goroutines": goroutines}))
	testenv.OK(t, w.Close())
}

// A selfTime is a row's self time in ms.
type selfTime struct{ wall, cpu int64 }

// wholeRows are the rows by function of one file of wholeFile.
var wholeRows = map[string]selfTime{
	"main.work": {20, 10}, "[runnable]": {10, 0}, "[runnable, not started]": {2, 0}, "syscall.read": {10, 10},
	"[syscall]": {20, 0}, "runtime.cgocall": {10, 10}, "[sync.Mutex.Lock]": {20, 0}, "runtime.gcBgMarkWorker": {8, 8},
	"[scheduler]": {4, 4}, "[C threads]": {20, 20}, "[profiler]": {16, 16}, "[not seen]": {25, 0},
}

// selfTimes are the self times of a report by function, rounded to ms. Rows without time
// are left out.
func selfTimes(t *testing.T, in *Input, by profile.By) map[string]selfTime {
	t.Helper()
	r := testenv.Must(in.Report(profile.ReportOptions{By: by}))
	out := map[string]selfTime{}
	for _, row := range r.Rows {
		if row.Self == 0 {
			continue
		}
		testenv.Same(t, fmt.Sprintf("%s by %s: a row before", row.Name, by), out[row.Name], selfTime{})
		out[row.Name] = selfTime{row.Self.Round(time.Millisecond).Milliseconds(), row.SelfCPU.Round(time.Millisecond).Milliseconds()}
	}
	return out
}

// All that a source records has the same times in all formats that keep them.
func TestWholeSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.tach")
	wholeFile(t, path, 1, nil)
	in := openInput(t, path, Options{})
	sameSums(t, in)
	testenv.NoDiff(t, "by function", cmp.Diff(wholeRows, selfTimes(t, in, profile.ByFunction)))
	for by, want := range map[profile.By]map[string]selfTime{
		profile.ByState: {
			"running": {58, 58}, "no core": {10, 0}, "runnable": {12, 0}, "syscall on CPU": {10, 10}, "syscall": {10, 0},
			"C on CPU": {10, 10}, "C": {10, 0}, "sync.Mutex.Lock": {20, 0}, "not seen": {25, 0},
		},
		profile.ByGoroutine: {
			"goroutine 1 main.work": {90, 30}, "goroutine 2 main.work": {2, 0},
			"goroutine 3 runtime.gcBgMarkWorker (runtime)": {8, 8},
			"[scheduler]": {4, 4}, "[C threads]": {20, 20}, "[profiler]": {16, 16}, "[not seen]": {25, 0},
		},
		profile.ByFile: {
			"/src/main.go": {51, 10}, "[runnable, not started]": {1, 0}, "/go/src/syscall/z.go": {20, 10}, "/go/src/runtime/cgocall.go": {20, 10},
			"/go/src/runtime/mgc.go": {8, 8},
			"[scheduler]":            {4, 4}, "[C threads]": {20, 20}, "[profiler]": {16, 16}, "[not seen]": {25, 0},
		},
		profile.ByPackage: {
			"main": {51, 10}, "[runnable, not started]": {1, 0}, "syscall": {20, 10}, "runtime": {28, 18},
			"[scheduler]": {4, 4}, "[C threads]": {20, 20}, "[profiler]": {16, 16}, "[not seen]": {25, 0},
		},
		profile.ByLine: wholeRows,
	} {
		testenv.NoDiff(t, fmt.Sprintf("by %s", by), cmp.Diff(want, selfTimes(t, in, by)))
	}
	p := testenv.Must(in.Profile())
	testenv.Same(t, "goroutines", p.Goroutines, 3)
	for _, f := range p.Frames {
		testenv.FailIf(t, f.File == "" && f.Line != 0, "frame %v has the number of an object", f)
	}
	for _, f := range All() {
		if !f.CanWrite() || !f.CanRead() || f == dcpiDatabase {
			continue
		}
		out := filepath.Join(t.TempDir(), "out")
		testenv.OK(t, in.Convert(out, f.Name, Options{NoSource: true}))
		back := openInput(t, out, Options{From: f.Name})
		want := map[string]selfTime{}
		for name, times := range wholeRows {
			switch f {
			case folded, pyNYTProf, perlNYTProf: // have no CPU times
				times.cpu = 0
			}
			want[name] = times
		}
		got := selfTimes(t, back, profile.ByFunction)
		if f == spxReport { // keeps µs of each stretch
			for name, w := range want {
				if g := got[name]; g.wall >= w.wall-1 && g.wall <= w.wall+1 && g.cpu >= w.cpu-1 && g.cpu <= w.cpu+1 {
					got[name] = w
				}
			}
		}
		testenv.NoDiff(t, f.Name, cmp.Diff(want, got))
		p := testenv.Must(back.Profile())
		goroutines := 3
		switch f {
		case folded: // has none
			goroutines = 0
		case spxReport: // has the runtime's as functions
			goroutines = 2
		}
		testenv.Same(t, f.Name, p.Goroutines, goroutines)
	}
}

// Sessions in which waits of the runtime's goroutines count, and others, are joined: each
// keeps its times.
func TestJoinSystem(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	edits := []func(*tachyon.Session){
		nil, // only the CPU of the runtime's goroutines counts
		func(s *tachyon.Session) { s.System = true },
		func(s *tachyon.Session) { s.Markers = false }, // an early version: everything counts
	}
	for i, edit := range edits {
		paths = append(paths, filepath.Join(dir, fmt.Sprint(i, ".tach")))
		wholeFile(t, paths[i], 1, func(s *tachyon.Session) {
			s.PID, s.Part = 100+i, 0
			if edit != nil {
				edit(s)
			}
		})
	}
	waits := func(paths ...string) (ms int64) {
		t.Helper()
		in := testenv.Closes(t, testenv.Must(OpenAll(paths, Options{})))
		return selfTimes(t, in, profile.ByFunction)["[GC worker (idle)]"].wall
	}
	for _, c := range []struct {
		files []string
		want  int64
	}{
		{paths[:1], 0}, {paths[1:2], 59}, {paths[2:], 59},
		{paths[:2], 59}, {[]string{paths[1], paths[0]}, 59}, {[]string{paths[2], paths[0]}, 59}, {paths[1:], 118}, {paths, 118},
	} {
		testenv.Same(t, c.files, waits(c.files...), c.want)
	}
}

// info of a file with damaged samples shows what else is known, and warns.
func TestInfoOfDamagedSamples(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.tach")
	wholeFile(t, path, 1, nil)
	info := func() (texts map[string]string, warning error) {
		t.Helper()
		list := testenv.Must(openInput(t, path, Options{Warn: func(err error) { warning = err }}).Info())
		texts = map[string]string{}
		for _, f := range list {
			texts[f.Label] = f.Text
		}
		return texts, warning
	}
	whole, warning := info()
	if warning != nil || whole["CPU time"] != "78ms: goroutines 30ms, runtime 8ms, scheduler 4ms, C threads 20ms, profiler 16ms" ||
		whole["goroutines"] != "3" || whole["waited for"] != "0 objects that more than one goroutine waited for (channels)" || whole["no core"] == "" {
		t.Errorf("%q, warning %v", whole, warning)
	}
	b := testenv.Must(os.ReadFile(path))
	for i := range 16 {
		b[tachyon.HeaderSize+8+i] ^= 0x55
	}
	testenv.OK(t, os.WriteFile(path, b, 0o600))
	damaged, warning := info()
	testenv.FailIf(t, warning == nil || damaged["CPU time"] != "" || damaged["program"] != "app" || damaged["not seen"] != whole["not seen"], "%q, warning %v", damaged, warning)
}
