package rotate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const start = 1_700_000_000_000_000

// options returns options for files of one second each.
func options(t *testing.T) Options {
	return Options{
		Every: time.Second, Keep: 100, KeepBytes: 1 << 40,
		Writer: writer.Options{Start: start, Interval: 1000},
		Begin:  func(*writer.Writer, uint64) error { return nil },
		Failed: func(err error) { t.Error(err) },
	}
}

func nothing(*writer.Writer) error { return nil }

// fill writes n samples at intervals of 100 ms and begins a new file when Full says so.
func fill(t *testing.T, w *Writer, n int, finish func(*writer.Writer) error) {
	t.Helper()
	for range n {
		if w.Full() {
			w.Next(w.last, func() func(*writer.Writer) error { return finish })
			w.Settle()
		}
		id := w.Intern(tachyon.Frame{Func: fmt.Sprint("f", w.last%7)})
		if _, err := w.WriteBatch([]tachyon.Sample{{Thread: 1, Time: w.last + 100_000, Stack: []uint32{id}}}); err != nil {
			t.Fatal(err)
		}
	}
}

// times returns the times of a file's samples, in tenths of a second since the start.
func times(t *testing.T, path string) (list []int) {
	t.Helper()
	r, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for s, err := range r.Samples() {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, int(s.Time-start)/100_000)
	}
	return list
}

func upTo(from, to int) (list []int) {
	for i := from; i <= to; i++ {
		list = append(list, i)
	}
	return list
}

func names(paths []string) (list []string) {
	for _, p := range paths {
		list = append(list, filepath.Base(p))
	}
	return list
}

// Only the latest files are kept, and only files of the session are deleted.
func TestKeep(t *testing.T) {
	for name, tc := range map[string]struct {
		keep    int
		bytes   int64
		meddle  func(path string) error // called after the first file is finished
		kept    []string
		present []string
	}{
		"all":          {keep: 100, kept: []string{"x.1.tach", "x.2.tach", "x.3.tach", "x.4.tach"}},
		"files":        {keep: 2, kept: []string{"x.3.tach", "x.4.tach"}},
		"one file":     {keep: 1, kept: []string{"x.4.tach"}},
		"bytes":        {keep: 100, bytes: 1, kept: []string{"x.4.tach"}},
		"moved away":   {keep: 2, meddle: func(p string) error { return os.Rename(p, p+".mine") }, kept: []string{"x.3.tach", "x.4.tach"}, present: []string{"x.1.tach.mine"}},
		"replaced":     {keep: 2, meddle: func(p string) error { return errors.Join(os.Rename(p, p+".a"), os.WriteFile(p, nil, 0o600)) }, kept: []string{"x.3.tach", "x.4.tach"}, present: []string{"x.1.tach", "x.1.tach.a"}},
		"written to":   {keep: 2, meddle: func(p string) error { return os.Truncate(p, 5) }, kept: []string{"x.3.tach", "x.4.tach"}, present: []string{"x.1.tach"}},
		"a symlink":    {keep: 2, meddle: func(p string) error { return errors.Join(os.Rename(p, p+".a"), os.Symlink(p+".a", p)) }, kept: []string{"x.3.tach", "x.4.tach"}, present: []string{"x.1.tach", "x.1.tach.a"}},
		"deleted":      {keep: 2, meddle: os.Remove, kept: []string{"x.3.tach", "x.4.tach"}},
		"names taken":  {keep: 2, meddle: func(p string) error { return os.Symlink("/etc/passwd", filepath.Dir(p)+"/x.3.tach") }, kept: []string{"x.4.tach", "x.5.tach"}, present: []string{"x.3.tach"}},
		"and not ours": {keep: 1, meddle: func(p string) error { return os.WriteFile(filepath.Dir(p)+"/x.0.tach", nil, 0o600) }, kept: []string{"x.4.tach"}, present: []string{"x.0.tach"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := options(t)
			o.Keep = tc.keep
			if tc.bytes > 0 {
				o.KeepBytes = tc.bytes
			}
			w, err := Create(filepath.Join(dir, "x.tach"), o)
			if err != nil {
				t.Fatal(err)
			}
			fill(t, w, 11, nothing)
			if tc.meddle != nil {
				if err := tc.meddle(filepath.Join(dir, "x.1.tach")); err != nil {
					t.Fatal(err)
				}
			}
			fill(t, w, 25, nothing)
			if err := w.Close(nothing); err != nil {
				t.Fatal(err)
			}
			if got := names(w.Files()); !slices.Equal(got, tc.kept) {
				t.Errorf("kept %q, want %q", got, tc.kept)
			}
			want := append(slices.Clone(tc.kept), tc.present...)
			slices.Sort(want)
			list, err := filepath.Glob(filepath.Join(dir, "*"))
			if got := names(list); err != nil || !slices.Equal(got, want) {
				t.Errorf("the directory has %q, want %q", got, want)
			}
		})
	}
}

// If a new file cannot be made, the writer continues the old one and tries again later.
func TestNoNewFile(t *testing.T) {
	dir := t.TempDir()
	full := errors.New("no space")
	var failed []error
	broken := true
	o := options(t)
	begun := 0
	o.Begin = func(*writer.Writer, uint64) error {
		if begun++; begun > 1 && broken {
			return full
		}
		return nil
	}
	o.Failed = func(err error) { failed = append(failed, err) }
	w, err := Create(filepath.Join(dir, "x.tach"), o)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, w, 50, nothing)
	if len(failed) != 1 || !errors.Is(failed[0], full) {
		t.Errorf("errors %v", failed)
	}
	broken = false
	fill(t, w, 100, nothing)
	if err := w.Close(nothing); err != nil {
		t.Fatal(err)
	}
	if list, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(list) != len(w.Files()) {
		t.Errorf("the directory has %q, the session has %q", list, w.Files())
	}
	var all []int
	for i, path := range w.Files() {
		list := times(t, path)
		if all = append(all, list...); i == 0 && len(list) < 100 {
			t.Errorf("the first file ends after %d samples", len(list))
		}
	}
	if !slices.Equal(all, upTo(1, 150)) {
		t.Errorf("samples of %v", all)
	}
}

// A file ends at a size.
func TestBytes(t *testing.T) {
	o := options(t)
	o.Every, o.Bytes, o.Writer.Uncompressed = 0, 2<<20, true
	w, err := Create(filepath.Join(t.TempDir(), "x.tach"), o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		w.Intern(tachyon.Frame{Func: fmt.Sprint("f", i)})
	}
	stack := make([]uint32, 200)
	for i := range 20_000 { // about 400 bytes each
		if w.Full() {
			w.Next(w.last, func() func(*writer.Writer) error { return nothing })
			w.Settle()
		}
		for k := range stack {
			stack[k] = uint32((i*7 + k*13) % 1000)
		}
		if _, err := w.WriteBatch([]tachyon.Sample{{Thread: 1, Time: w.last + 1000, Stack: stack}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(nothing); err != nil {
		t.Fatal(err)
	}
	files := w.Files()
	if len(files) < 3 {
		t.Fatalf("files: %q", files)
	}
	for _, path := range files {
		if fi, err := os.Stat(path); err != nil || fi.Size() > 3<<20 || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, fi, err)
		}
	}
}
