package reader_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// sampled is a sample of TestMarkers, and what Weighted says of it.
type sampled struct {
	Thread      uint64
	Interpreter uint32
	At          uint64 // µs since the start
	Weight      uint64
	CPU         bool
	Index       int
	First       bool
	Marker      bool
}

// markerFile has goroutines of the program and of the runtime, and CPU time of no goroutine.
func markerFile(t *testing.T, session *tachyon.Session) *reader.Reader {
	t.Helper()
	const start, pseudo = 1_000_000, tachyon.FirstPseudo
	var f testenv.File
	w, err := writer.New(&f, writer.Options{Start: start, Interval: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []sampled{
		{Thread: 5, Interpreter: tachyon.Runtime, At: 1000}, // waits first
		{Thread: 1, At: 1000},
		{Thread: pseudo, Interpreter: tachyon.Process, At: 1000},
		{Thread: 5, Interpreter: tachyon.Runtime, At: 1400}, // still waits
		{Thread: 5, Interpreter: tachyon.Runtime, At: 1900, CPU: true},
		{Thread: 6, Interpreter: tachyon.Runtime, At: 2000}, // never uses a CPU
		{Thread: 1, At: 2000, CPU: true},
		{Thread: pseudo, Interpreter: tachyon.Process, At: 2300, CPU: true},
		{Thread: pseudo, Interpreter: tachyon.Process, At: 2500},
		{Thread: 5, Interpreter: tachyon.Runtime, At: 2900},
		{Thread: 5, Interpreter: tachyon.Runtime, At: 3000, CPU: true},
		{Thread: pseudo, Interpreter: tachyon.Process, At: 3100, CPU: true},
	} {
		sample := tachyon.Sample{Thread: s.Thread, Interpreter: s.Interpreter, Time: start + s.At}
		if s.CPU {
			sample.Status = tachyon.OnCPU
		}
		if err := w.Write(&sample); err != nil {
			t.Fatal(err)
		}
	}
	if session != nil {
		if err := w.AddMetadata(tachyon.KindSession, session); err != nil {
			t.Fatal(err)
		}
	}
	goroutines := []tachyon.Goroutine{{ID: 5, FirstWeight: 700}, {ID: 1, FirstWeight: 300}}
	if err := w.AddMetadata(tachyon.KindGoroutines, map[string]any{"goroutines": goroutines}); err != nil {
		t.Fatal(err)
	}
	return testenv.Finish(t, &f, w, reader.New)
}

// Samples of the runtime's goroutines and of no goroutine count as the session says.
func TestMarkers(t *testing.T) {
	const pseudo = tachyon.FirstPseudo
	collect := func(s reader.Stream, markers bool) map[uint64][]sampled {
		t.Helper()
		list := reader.Weighted(s)
		if markers {
			list = reader.WithMarkers(s)
		}
		out := map[uint64][]sampled{}
		firsts := 0
		for s, err := range list {
			if err != nil {
				t.Fatal(err)
			}
			if s.First {
				if s.Index != firsts {
					t.Errorf("thread %d is the %d. of those here and has index %d", s.Thread, firsts, s.Index)
				}
				firsts++
			}
			out[s.Thread] = append(out[s.Thread], sampled{
				Thread: s.Thread, Interpreter: s.Interpreter, At: s.Time - 1_000_000, Weight: s.Weight,
				CPU: s.CPU() > 0, First: s.First, Marker: s.Marker,
			})
		}
		return out
	}
	one := []sampled{
		{Thread: 1, At: 1000, Weight: 300, First: true},
		{Thread: 1, At: 2000, Weight: 1000, CPU: true},
	}
	five := []sampled{
		{Thread: 5, Interpreter: 1, At: 1000, Weight: 700, First: true},
		{Thread: 5, Interpreter: 1, At: 1400, Weight: 400},
		{Thread: 5, Interpreter: 1, At: 1900, Weight: 500, CPU: true},
		{Thread: 5, Interpreter: 1, At: 2900, Weight: 1000},
		{Thread: 5, Interpreter: 1, At: 3000, Weight: 100, CPU: true},
	}
	six := []sampled{{Thread: 6, Interpreter: 1, At: 2000, Weight: 1000, First: true}}
	process := []sampled{
		{Thread: pseudo, Interpreter: 2, At: 1000, Weight: 1000, First: true},
		{Thread: pseudo, Interpreter: 2, At: 2300, Weight: 1300, CPU: true},
		{Thread: pseudo, Interpreter: 2, At: 2500, Weight: 200},
		{Thread: pseudo, Interpreter: 2, At: 3100, Weight: 600, CPU: true},
	}
	all := map[uint64][]sampled{1: one, 5: five, 6: six, pseudo: process}
	// counted is what is left of all, and marked is all with the others marked.
	split := func(isMarker func(sampled) bool) (counted, marked map[uint64][]sampled) {
		counted, marked = map[uint64][]sampled{}, map[uint64][]sampled{}
		for id, list := range all {
			for _, s := range list {
				s.Marker = isMarker(s)
				marked[id] = append(marked[id], s)
				if !s.Marker {
					s.First = len(counted[id]) == 0
					counted[id] = append(counted[id], s)
				}
			}
		}
		return counted, marked
	}
	for name, c := range map[string]struct {
		session *tachyon.Session
		marker  func(sampled) bool
	}{
		"another program's file": {nil, func(sampled) bool { return false }},
		"a file of an early version": {
			&tachyon.Session{Program: "x", System: true}, func(sampled) bool { return false },
		},
		"the runtime's CPU": {
			&tachyon.Session{Markers: true}, func(s sampled) bool { return s.Interpreter > 0 && !s.CPU },
		},
		"the runtime's waits": {
			&tachyon.Session{Markers: true, System: true}, func(s sampled) bool { return s.Interpreter == 2 && !s.CPU },
		},
	} {
		r := markerFile(t, c.session)
		counted, marked := split(c.marker)
		if d := cmp.Diff(counted, collect(r, false)); d != "" {
			t.Errorf("%s: Weighted (-want +got):\n%s", name, d)
		}
		if d := cmp.Diff(marked, collect(r, true)); d != "" {
			t.Errorf("%s: WithMarkers (-want +got):\n%s", name, d)
		}
	}
}

// Numbers of objects become line 0, and stacks that differ in them alone become equal.
func TestWithoutObjects(t *testing.T) {
	var f testenv.File
	w, err := writer.New(&f, writer.Options{Start: 0, Interval: 1000})
	if err != nil {
		t.Fatal(err)
	}
	caller := tachyon.Frame{File: "a.go", Func: "main.work", Line: 7}
	stacks := [][]tachyon.Frame{
		{{Func: "[sync.Mutex.Lock]", Line: 17}, caller},
		{{Func: "[sync.Mutex.Lock]", Line: 18}, caller},
		{{Func: "[sync.Mutex.Lock]"}, caller},
		{{Func: "[select]", Line: 3}, caller},
		{caller},
		{{Func: "odd", Line: 4}, caller},                 // not a wait
		{{File: "x.py", Func: "[odd]", Line: 5}, caller}, // not a wait
	}
	for i, stack := range stacks {
		if err := w.WriteFrames(&tachyon.Sample{Thread: 1, Time: uint64(i)}, stack); err != nil {
			t.Fatal(err)
		}
	}
	r := testenv.Finish(t, &f, w, reader.New)
	s := reader.WithoutObjects(r)
	var got [][]tachyon.Frame
	var ids [][]uint32
	for sample, err := range s.Samples() {
		if err != nil {
			t.Fatal(err)
		}
		var stack []tachyon.Frame
		for _, id := range sample.Stack {
			stack = append(stack, s.Frames()[id])
		}
		got = append(got, stack)
		ids = append(ids, append([]uint32(nil), sample.Stack...))
	}
	want := append([][]tachyon.Frame(nil), stacks...)
	for i, name := range []string{"[sync.Mutex.Lock]", "[sync.Mutex.Lock]", "[sync.Mutex.Lock]", "[select]"} {
		want[i] = []tachyon.Frame{{Func: name}, caller}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if !cmp.Equal(ids[0], ids[1]) || !cmp.Equal(ids[0], ids[2]) {
		t.Errorf("equal stacks are %v, %v and %v", ids[0], ids[1], ids[2])
	}
	if r.Frames()[ids[0][0]].Line != 17 {
		t.Error("the file's own frames changed")
	}
	if again := reader.WithoutObjects(s); again != s {
		t.Error("a stream without numbers is wrapped")
	}
}
