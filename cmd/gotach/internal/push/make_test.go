package push

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// A process writes files as a profiled program does.
type process struct {
	pid     int
	program string
	labels  int // different values of a label; 0: no labels
}

const startMicros = 1_800_000_000_000_000

// file writes the file with a number, from 1. It has a second. If it is not to be finished, it is as a killed program
// leaves it, with its journal.
func (p process) file(t testing.TB, path string, part int, finish bool) {
	t.Helper()
	must(os.MkdirAll(filepath.Dir(path), 0o700))
	from := uint64(startMicros + p.pid*17 + (part-1)*1e6)
	w := testenv.Must(writer.Create(path, writer.Options{Start: from, Interval: 1000}))
	session := tachyon.Session{
		Program: p.program, GoVersion: "go1.26.0", GOOS: "linux", GOARCH: "amd64", Host: "web-1", PID: p.pid, Version: "v1.4.2", Module: "example.com/" + p.program,
		VCS: map[string]string{"vcs.revision": "0123456789abcdef0123", "vcs.modified": "true"}, BuildID: "a/b/c/d", Executable: "/opt/" + p.program,
		Start: time.UnixMicro(int64(from)).UTC(), Source: "native", Rate: 1000, Markers: true, Part: part,
		SessionStart: time.UnixMicro(int64(startMicros + p.pid*17)).UTC(),
	}
	must(w.Provisional(tachyon.KindSession, session))
	frame := func(name string, line int32) uint32 {
		return w.Intern(tachyon.Frame{Func: "main." + name, File: "/src/" + name + ".go", Line: line})
	}
	receive, runnable := w.Intern(tachyon.Frame{Func: "[chan receive]"}), w.Intern(tachyon.Frame{Func: "[runnable]"})
	root, work, wait := frame("main", 10), frame("work", 20), frame("wait", 30)
	const running = tachyon.HasGIL | tachyon.OnCPU
	samples := 0
	for g := range uint64(10) {
		info := tachyon.Goroutine{ID: 1 + g, CreatedBy: "main.main"}
		if p.labels > 0 {
			info.Labels = []tachyon.LabelSpan{{Labels: map[string]string{"tenant": fmt.Sprint("t", int(g)%p.labels)}}}
		}
		if g == 3 {
			info.Labels = []tachyon.LabelSpan{{Labels: map[string]string{
				"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331", "route": "/search"}}}
		}
		must(w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{info}}))
		for i := range uint64(20) {
			s := tachyon.Sample{Thread: info.ID, Time: from + (i+1)*50_000 - 1000 + g, Stack: []uint32{receive, wait, root}}
			switch (i + g) % 4 {
			case 0:
				s.Status, s.Stack = running, []uint32{work, root}
			case 1:
				s.Status, s.Stack = tachyon.GILRequested, []uint32{runnable, work, root}
			}
			samples++
			must(w.Write(&s))
		}
	}
	if !finish { // as a program leaves its file and the journal that is killed
		names := []string{path, path + journal.Suffix}
		for _, name := range names {
			copyFile(name, name+".kept")
		}
		must(w.Close())
		for _, name := range names {
			must(os.Rename(name+".kept", name))
		}
		return
	}
	session.Duration = time.Second
	session.Counts = tachyon.Counts{Samples: int64(samples), NotSeen: 12345 * time.Microsecond}
	must(w.AddMetadata(tachyon.KindSession, session))
	must(w.Close())
}

func copyFile(from, to string) { must(os.WriteFile(to, testenv.Must(os.ReadFile(from)), 0o600)) }

// must ends the tests at an error that none of them expects.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
