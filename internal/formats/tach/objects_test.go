package tach

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
)

// In CPython's layout numbers of objects become line 0, and stacks that differ in them alone become equal. In the document's layout they stay.
func TestWithoutObjects(t *testing.T) {
	caller := tachyon.Frame{File: "a.go", Func: "main.work", Line: 7}
	stacks := []struct{ was, is tachyon.Frame }{
		{tachyon.Frame{Func: "[sync.Mutex.Lock]", Line: 17}, tachyon.Frame{Func: "[sync.Mutex.Lock]"}},
		{tachyon.Frame{Func: "[sync.Mutex.Lock]", Line: 18}, tachyon.Frame{Func: "[sync.Mutex.Lock]"}},
		{tachyon.Frame{Func: "[sync.Mutex.Lock]"}, tachyon.Frame{Func: "[sync.Mutex.Lock]"}},
		{tachyon.Frame{Func: "[select]", Line: 3}, tachyon.Frame{Func: "[select]"}},
		{tachyon.Frame{Func: "odd", Line: 4}, tachyon.Frame{Func: "odd", Line: 4}},                                 // not a wait
		{tachyon.Frame{File: "x.py", Func: "[odd]", Line: 5}, tachyon.Frame{File: "x.py", Func: "[odd]", Line: 5}}, // not a wait
	}
	var was, is []tachyon.Frame
	for _, s := range stacks {
		was, is = append(was, s.was), append(is, s.is)
	}
	in := testenv.Must(InMemory(func(create Create) error {
		w := testenv.Must(create(1, 1))
		for i, f := range was {
			testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: 1, Time: uint64(i + 1)}, []tachyon.Frame{f, caller}))
		}
		return nil
	}))
	for layout, want := range map[tachyon.Layout][]tachyon.Frame{tachyon.CPython315: is, tachyon.Document: was} {
		f := testenv.Must(os.Create(filepath.Join(t.TempDir(), "x")))
		defer f.Close()
		src := testenv.Must(stream.New([]stream.File{{Stream: in}}, stream.Options{Markers: true, Objects: true}))
		testenv.OK(t, Write(f, src, Options{Layout: layout}))
		r := testenv.Must(reader.Open(f.Name()))
		defer r.Close()
		var got []tachyon.Frame
		ids := map[tachyon.Frame]uint32{}
		for s, err := range r.Samples() {
			testenv.OK(t, err)
			top := r.Frames()[s.Stack[0]]
			if id, again := ids[top]; again && id != s.Stack[0] || r.Frames()[s.Stack[1]] != caller {
				t.Errorf("%v: stack %v of %v", layout, s.Stack, top)
			}
			ids[top] = s.Stack[0]
			got = append(got, top)
		}
		testenv.NoDiff(t, layout.String(), cmp.Diff(want, got))
	}
}
