package rotate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

func TestMain(m *testing.M) { testenv.MainWithoutLeaks(m) }

const start = 1_700_000_000_000_000

// options returns options for files of one second each.
func options(t *testing.T) Options {
	return Options{
		Every: time.Second, Keep: 100, KeepBytes: 1 << 40,
		Writer:   writer.Options{Start: start, Interval: 1000},
		Begin:    func(*writer.Writer, uint64) error { return nil },
		Failed:   func(err error) { t.Error(err) },
		Deleting: func(paths []string) { t.Errorf("%q are deleted", paths) },
	}
}

func nothing(*writer.Writer) error { return nil }

// begin begins a session in a new directory.
func begin(t *testing.T, o Options) (w *Writer, dir string) {
	t.Helper()
	dir = t.TempDir()
	w = testenv.Must(Create(filepath.Join(dir, "x.tach"), o))
	return w, dir
}

// turn begins a new file if the present one is full.
func turn(w *Writer, finish func(*writer.Writer) error) {
	if w.Full() {
		w.Next(w.last, func() func(*writer.Writer) error { return finish })
		w.Settle()
	}
}

// write writes a sample of thread 1.
func write(t *testing.T, w *Writer, later uint64, stack ...uint32) {
	t.Helper()
	if _, err := w.WriteBatch([]tachyon.Sample{{Thread: 1, Time: w.last + later, Stack: stack}}); err != nil {
		t.Fatal(err)
	}
}

// end ends a session.
func end(t *testing.T, w *Writer, finish func(*writer.Writer) error) {
	t.Helper()
	testenv.OK(t, w.Close(finish))
}

// fill writes n samples at intervals of 100 ms and begins a new file when Full says so.
func fill(t *testing.T, w *Writer, n int, finish func(*writer.Writer) error) {
	t.Helper()
	for range n {
		turn(w, finish)
		write(t, w, 100_000, w.Intern(tachyon.Frame{Func: fmt.Sprint("f", w.last%7)}))
	}
}

func open(t *testing.T, path string) *reader.Reader {
	t.Helper()
	r := testenv.Must(reader.Open(path))
	t.Cleanup(func() { r.Close() })
	return r
}

// times returns the times of a file's samples, in tenths of a second since the start.
func times(t *testing.T, path string) (list []int) {
	t.Helper()
	for s, err := range open(t, path).Samples() {
		testenv.OK(t, err)
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

// inside returns the names of a directory's files.
func inside(t *testing.T, dir string) []string {
	t.Helper()
	list := testenv.Must(filepath.Glob(filepath.Join(dir, "*")))
	return names(list)
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
			o := options(t)
			o.Keep = tc.keep
			if tc.bytes > 0 {
				o.KeepBytes = tc.bytes
			}
			w, dir := begin(t, o)
			fill(t, w, 11, nothing)
			if tc.meddle != nil {
				testenv.OK(t, tc.meddle(filepath.Join(dir, "x.1.tach")))
			}
			fill(t, w, 25, nothing)
			end(t, w, nothing)
			if got := names(w.Files()); !slices.Equal(got, tc.kept) {
				t.Errorf("kept %q, want %q", got, tc.kept)
			}
			want := append(slices.Clone(tc.kept), tc.present...)
			slices.Sort(want)
			if got := inside(t, dir); !slices.Equal(got, want) {
				t.Errorf("the directory has %q, want %q", got, want)
			}
		})
	}
}

// A file ends at a size.
func TestBytes(t *testing.T) {
	o := options(t)
	o.Every, o.Bytes, o.Writer.Uncompressed = 0, 1<<20, true
	w, _ := begin(t, o)
	stack := make([]uint32, 200)
	for i := range stack {
		stack[i] = w.Intern(tachyon.Frame{Func: fmt.Sprint("f", i)})
	}
	for i := range uint32(12_000) { // about 300 bytes each
		turn(w, nothing)
		stack[199] = i % 200
		write(t, w, 1000, stack...)
	}
	end(t, w, nothing)
	if n := len(w.Files()); n < 3 {
		t.Fatalf("%d files", n)
	}
	for _, path := range w.Files() {
		if fi, err := os.Stat(path); err != nil || fi.Size() > 2<<20 || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, fi, err)
		}
	}
}

// TestKeepReason: files within a minute of a moment outlast those that rotation deletes, know why, and have the limits for themselves.
func TestKeepReason(t *testing.T) {
	o := options(t)
	o.Every, o.Keep = 20*time.Second, 3
	w, dir := begin(t, o)
	at := func(tenths int, do func()) {
		for int(w.last-start)/100_000 < tenths {
			fill(t, w, 1, nothing)
		}
		if do != nil {
			do()
		}
	}
	at(1500, func() { // 150 s: files 1 to 7 are finished, 5 to 7 are there
		if got := names(w.Files()); !slices.Equal(got, []string{"x.5.tach", "x.6.tach", "x.7.tach"}) {
			t.Fatalf("finished before: %v", got)
		}
		if !w.Keep(start+150_000_000, "why") || w.Keep(start+209_000_000, "again") {
			t.Error("Keep is not once a minute")
		}
		progress := tachyon.Records{Progress: &tachyon.Progress{}}
		testenv.OK(t, w.WriteRecords(&progress))
		if progress.Progress.Kept != "why" {
			t.Errorf("the progress says %q", progress.Progress.Kept)
		}
	})
	if w.reason(start+89_000_000, start+89_900_000) != "" || w.reason(start+80_000_000, start+91_000_000) != "why" || w.reason(start+200_000_000, start+220_000_000) != "why" || w.reason(start+211_000_000, start+230_000_000) != "" {
		t.Error("the reason is not that of the minute before and after")
	}
	at(1700, func() { // file 8 counts with those before the moment, which would be the three others
		if got, want := names(w.Files()), []string{"x.6.tach", "x.7.tach", "x.8.tach"}; !slices.Equal(got, want) {
			t.Errorf("finished soon after: %v, want %v", got, want)
		}
	})
	at(4000, nil)
	end(t, w, nothing)
	// Of those that end from 90 s on and begin until 210 s three are kept, and three of the others.
	if got, want := names(w.Files()), []string{"x.9.tach", "x.10.tach", "x.11.tach", "x.18.tach", "x.19.tach", "x.20.tach"}; !slices.Equal(got, want) {
		t.Errorf("finished: %v, want %v", got, want)
	}
	if got := inside(t, dir); len(got) != 6 {
		t.Errorf("there are %v", got)
	}
}
