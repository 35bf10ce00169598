package rotate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// A session without rotation begins a new file when the old one cannot count more samples.
// Each file has its own metadata and checksum, and all files are kept.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.tach")
	for _, name := range []string{"x.3.tach", "x.9.tach"} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("of an earlier session"), 0o600))
	}
	o := options(t)
	o.Every, o.Keep, o.KeepBytes, o.Samples = 0, 1, 1, 40
	begun, ended := 0, 0
	o.Begin = func(w *writer.Writer, start uint64) error {
		begun++
		return w.Provisional("part", begun)
	}
	finish := func(w *writer.Writer) error {
		ended++
		return w.AddMetadata("part", ended)
	}
	w := testenv.Must(Create(path, o))
	if w.Path() != path {
		t.Errorf("the first file is %s", w.Path())
	}
	fill(t, w, 100, finish)
	end(t, w, finish)
	if got, want := names(w.Files()), []string{"x.tach", "x.2.tach", "x.4.tach"}; !slices.Equal(got, want) {
		t.Fatalf("files %q, want %q", got, want)
	}
	var all []int
	for i, path := range w.Files() {
		all = append(all, times(t, path)...)
		r := open(t, path)
		if present, err := r.VerifyChecksum(); !present || err != nil {
			t.Errorf("%s: checksum present: %v, error %v", path, present, err)
		}
		want := fmt.Sprintf(`{"gotach":"part","part":%d}`, i+1)
		if got := r.MetadataObjects(); len(got) != 2 || got[0] != want {
			t.Errorf("%s: metadata %q, want %s and a checksum", path, got, want)
		}
		if h := r.Header(); h.Samples > 40 || h.Start != start+uint64(i)*4_000_000 {
			t.Errorf("%s: %d samples from %d on", path, h.Samples, h.Start)
		}
	}
	if !slices.Equal(all, upTo(1, 100)) {
		t.Errorf("samples of %v", all)
	}
	for _, name := range []string{"x.3.tach", "x.9.tach"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != "of an earlier session" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// Frames keep their ids in all files. This is also true for different names that are the
// same name in a file because they are not valid UTF-8.
func TestFrames(t *testing.T) {
	o := options(t)
	o.Every, o.Samples = 0, 5
	w, _ := begin(t, o)
	var stack []uint32
	want := []string{"a", "bad\uFFFD", "bad\uFFFD", "b", "c"}
	for i, name := range []string{"a", "bad\xff", "bad\xfe", "b", "c"} {
		id := w.Intern(tachyon.Frame{Func: name})
		if again := w.Intern(tachyon.Frame{Func: name}); id != uint32(i) || again != id {
			t.Errorf("%q has id %d, then %d, want %d", name, id, again, i)
		}
		stack = append(stack, id)
		for range 3 {
			turn(w, nothing)
			write(t, w, 1, stack...)
		}
		if _, err := w.WriteBatch([]tachyon.Sample{{Thread: 1, Time: w.last + 1, Stack: []uint32{id + 1}}}); err == nil {
			t.Errorf("frame id %d of a table with %d frames is accepted", id+1, id+1)
		}
	}
	end(t, w, nothing)
	n := 0
	for _, path := range w.Files() {
		r := open(t, path)
		for s, err := range r.Samples() {
			testenv.OK(t, err)
			var got []string
			for _, id := range s.Stack {
				got = append(got, r.Frames()[id].Func)
			}
			if !slices.Equal(got, want[:n/3+1]) {
				t.Errorf("sample %d is %q, want %q", n, got, want[:n/3+1])
			}
			n++
		}
	}
	if n != 15 || len(w.Files()) < 3 {
		t.Errorf("%d samples in %q", n, w.Files())
	}
}

// All samples go to a device; no other file begins.
func TestDevice(t *testing.T) {
	o := options(t)
	o.Samples = 10
	w := testenv.Must(Create(os.DevNull, o))
	fill(t, w, 100, nothing)
	if w.number != 1 {
		t.Errorf("%d files", w.number)
	}
	if err := w.Close(nothing); err != nil || !slices.Equal(w.Files(), []string{os.DevNull}) {
		t.Errorf("files %q, %v", w.Files(), err)
	}
}
