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

// turn tries to begin a new file if the present one is full, and returns how often it has tried.
func turn(w *Writer, finish func(*writer.Writer) error) (tries int) {
	if w.Full() {
		w.Next(w.last, func() func(*writer.Writer) error { return finish })
		w.Settle()
		return 1
	}
	return 0
}

// write writes a sample of thread 1.
func write(t *testing.T, w *Writer, later uint64, stack ...uint32) {
	t.Helper()
	testenv.OK(t, testenv.Err(w.WriteBatch([]tachyon.Sample{{Thread: 1, Time: w.last + later, Stack: stack}})))
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
	r := testenv.Closes(t, testenv.Must(reader.Open(path)))
	return r
}

// times returns the times of a file's samples, in tenths of a second since the start.
func times(t *testing.T, path string) (list []int) {
	t.Helper()
	for s := range testenv.All(t, open(t, path).Samples()) {
		list = append(list, int(s.Time-start)/100_000)
	}
	return list
}

// upTo returns the numbers from one to another.
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
	return names(testenv.Must(filepath.Glob(filepath.Join(dir, "*"))))
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
			testenv.SameList(t, "kept", names(w.Files()), tc.kept)
			want := append(slices.Clone(tc.kept), tc.present...)
			slices.Sort(want)
			testenv.SameList(t, "the directory", inside(t, dir), want)
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
	testenv.Within(t, "files", len(w.Files()), 3, 10)
	for _, path := range w.Files() {
		fi := testenv.Must(os.Stat(path))
		testenv.Within(t, path, fi.Size(), 1, 2<<20)
		testenv.Same(t, path, fi.Mode().Perm(), 0o600)
	}
}

// TestKeepReason: files within a minute of a moment outlast those that rotation deletes, know why, and have the limits for themselves.
func TestKeepReason(t *testing.T) {
	o := options(t)
	o.Every, o.Keep = 20*time.Second, 3
	w, dir := begin(t, o)
	fill(t, w, 1500, nothing) // 150 s: files 1 to 7 are finished, 5 to 7 are there
	testenv.SameList(t, "finished before", names(w.Files()), []string{"x.5.tach", "x.6.tach", "x.7.tach"})
	testenv.Prints(t, "Keep once in a minute", "true false", w.Keep(start+150_000_000, "why"), w.Keep(start+209_000_000, "again"))
	progress := tachyon.Records{Progress: &tachyon.Progress{}}
	testenv.OK(t, w.WriteRecords(&progress))
	testenv.Same(t, "the reason in the progress", progress.Progress.Kept, "why")
	for _, c := range []struct {
		from, to uint64 // in tenths of a second
		want     string
	}{{890, 899, ""}, {800, 910, "why"}, {2000, 2200, "why"}, {2110, 2300, ""}} {
		testenv.Same(t, c, w.reason(start+c.from*1e5, start+c.to*1e5), c.want)
	}
	fill(t, w, 200, nothing) // file 8 counts with those before the moment, which would be the three others
	testenv.SameList(t, "finished soon after", names(w.Files()), []string{"x.6.tach", "x.7.tach", "x.8.tach"})
	fill(t, w, 2300, nothing)
	end(t, w, nothing)
	// Of those that end from 90 s on and begin until 210 s three are kept, and three of the others.
	testenv.SameList(t, "finished", names(w.Files()), []string{"x.9.tach", "x.10.tach", "x.11.tach", "x.18.tach", "x.19.tach", "x.20.tach"})
	testenv.Same(t, "files", len(inside(t, dir)), 6)
}

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
	testenv.Same(t, "the first file", w.Path(), path)
	fill(t, w, 100, finish)
	end(t, w, finish)
	testenv.SameList(t, "files", names(w.Files()), []string{"x.tach", "x.2.tach", "x.4.tach"})
	var all []int
	for i, path := range w.Files() {
		all = append(all, times(t, path)...)
		r := open(t, path)
		testenv.Same(t, path, testenv.Must(r.VerifyChecksum()), true)
		got, h := r.MetadataObjects(), r.Header()
		testenv.Prints(t, path+": metadata, and a checksum", fmt.Sprintf(`2 {"gotach":"part","part":%d}`, i+1), len(got), got[0])
		testenv.Within(t, path+": samples", h.Samples, 1, 40)
		testenv.Same(t, path+": start", h.Start, start+uint64(i)*4_000_000)
	}
	testenv.SameList(t, "samples", all, upTo(1, 100))
	for _, name := range []string{"x.3.tach", "x.9.tach"} {
		testenv.Same(t, "content", string(testenv.Must(os.ReadFile(filepath.Join(dir, name)))), "of an earlier session")
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
		testenv.Prints(t, name, fmt.Sprint(i, i), id, w.Intern(tachyon.Frame{Func: name}))
		stack = append(stack, id)
		for range 3 {
			turn(w, nothing)
			write(t, w, 1, stack...)
		}
		testenv.Fails(t, "a frame too many", testenv.Err(w.WriteBatch([]tachyon.Sample{{Thread: 1, Time: w.last + 1, Stack: []uint32{id + 1}}})), "refers to frame")
	}
	end(t, w, nothing)
	n := 0
	for _, path := range w.Files() {
		r := open(t, path)
		for s := range testenv.All(t, r.Samples()) {
			var got []string
			for _, id := range s.Stack {
				got = append(got, r.Frames()[id].Func)
			}
			testenv.SameList(t, fmt.Sprint("sample ", n), got, want[:n/3+1])
			n++
		}
	}
	testenv.Same(t, "samples", n, 15)
	testenv.Within(t, "files", len(w.Files()), 3, 15)
}

// All samples go to a device; no other file begins.
func TestDevice(t *testing.T) {
	o := options(t)
	o.Samples = 10
	w := testenv.Must(Create(os.DevNull, o))
	fill(t, w, 100, nothing)
	end(t, w, nothing)
	testenv.Prints(t, "files", "1 [/dev/null]", w.number, w.Files())
}
