//go:build darwin || dragonfly || freebsd || linux || netbsd

package writer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// A faulty file returns an error from its nth write on, or only for that write.
type faulty struct {
	*os.File
	err    error
	fail   int // which write; 0: none
	once   bool
	writes int
}

func (f *faulty) Write(p []byte) (int, error) {
	f.writes++
	if f.fail > 0 && (f.writes == f.fail || f.writes > f.fail && !f.once) {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, &os.PathError{Op: "write", Path: f.Name(), Err: f.err}
	}
	return f.File.Write(p)
}

func createFaulty(t testing.TB, path string, o Options) (*Writer, *faulty) {
	t.Helper()
	w := testenv.Must(Create(path, o))
	f := &faulty{File: w.own}
	w.f, w.out.f = f, f
	return w, f
}

// Each write in turn fails, once or from then on, with different errors. No accepted sample
// is lost: Close finishes the file, or recovery finishes it when the disk works again.
func TestEveryWriteFailsWithJournal(t *testing.T) {
	testenv.Long(t)
	for _, uncompressed := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "x.tach")
		w, f := createFaulty(t, path, Options{Uncompressed: uncompressed})
		if n, err := feed(w, 0, several); n != several {
			t.Fatal(err)
		}
		testenv.OK(t, w.Close())
		writes := f.writes
		if n, finished := holds(t, path); n != several || !finished {
			t.Fatal(n, finished)
		}
		errnos := []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO}
		for i := range 2 * writes {
			fail, once, errno := 1+i/2, i%2 == 0, errnos[i%3]
			if once == uncompressed && testenv.Times(1, 2) == 1 {
				continue // by day each of both ways once
			}
			w, f := createFaulty(t, path, Options{Uncompressed: uncompressed})
			f.err, f.fail, f.once = errno, fail, once
			taken, err := feed(w, 0, several)
			if err != nil && !errors.Is(err, errno) {
				t.Fatal(err)
			}
			if err := w.Close(); !errors.Is(err, errno) {
				t.Fatalf("write %d of %d fails with %v: Close says %v", fail, writes, errno, err)
			}
			n, finished := holds(t, path)
			if n != taken {
				t.Fatalf("write %d of %d fails (once: %v): %d samples were accepted, the file has %d", fail, writes, once, taken, n)
			}
			if !finished {
				testenv.OK(t, second(recovery.Finish(path)))
				if n, finished = holds(t, path); n != taken || !finished {
					t.Fatalf("write %d of %d fails: %d samples were accepted, %d recovered", fail, writes, taken, n)
				}
			}
			if _, err := os.Stat(path + journal.Suffix); err == nil {
				t.Fatal("the journal is still there")
			}
		}
	}
}

// The writer follows a symbolic link of the user, and the journal is beside the link's
// target. Only the owner can read them. TestPeerForeignLink has another user's link.
func TestLinks(t *testing.T) {
	for name, there := range map[string]bool{"to a file": true, "to nothing": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			target, link := filepath.Join(dir, "target.tach"), filepath.Join(dir, "link.tach")
			testenv.OK(t, os.Symlink("target.tach", link))
			if there {
				testenv.OK(t, os.WriteFile(target, finished(t), 0o600))
			}
			w := testenv.Must(Create(link, Options{}))
			n := testenv.Must(feed(w, 0, 1000))
			for _, path := range []string{target, target + journal.Suffix} {
				if fi, err := os.Stat(path); err != nil || fi.Mode() != 0o600 {
					t.Errorf("%s: %v, %v", path, fi, err)
				}
			}
			for _, path := range []string{link, target} {
				if got, finished := holds(t, path); got != n || finished {
					t.Errorf("%s: %d samples, want %d", path, got, n)
				}
			}
			abandon(w)
			testenv.OK(t, second(recovery.Finish(link)))
			if got, finished := holds(t, target); got != n || !finished {
				t.Errorf("%d samples, want %d", got, n)
			}
		})
	}
}

// A kill after any store into the journal leaves the accepted samples, each once, and at
// most also the sample that is being written: a reader sees what a kill would leave.
func TestEveryInstant(t *testing.T) {
	testenv.Again(t)
	defer func() { journal.AfterStore = nil }()
	for _, uncompressed := range []bool{false, true}[:testenv.Brief(1, 2)] {
		path := filepath.Join(t.TempDir(), "x.tach")
		w, err := Create(path, Options{Uncompressed: uncompressed})
		testenv.OK(t, err)
		for _, f := range numberedFrames[100:] { // a hundred new frames are enough
			w.Intern(f)
		}
		taken, instants, flushes := 0, 0, 0
		look := func() {
			instants++
			if n, _ := holds(t, path); n != taken && n != taken+1 {
				t.Fatalf("%d samples were accepted, a kill leaves %d", taken, n)
			}
		}
		for taken < several {
			// Check at the start, where everything is new, and around flushes.
			full := cap(w.out.buf)-len(w.out.buf) < maxRecord
			if full {
				flushes++
			}
			if journal.AfterStore = nil; taken < 50 || full || taken%1501 == 0 {
				journal.AfterStore = look
			}
			testenv.OK(t, second(feed(w, taken, taken+1)))
			if taken++; journal.AfterStore != nil {
				look()
			}
		}
		journal.AfterStore = look
		err = errors.Join(w.Forget(5, 0), w.Close()) // Close writes the repeats of all threads
		journal.AfterStore = nil
		testenv.OK(t, err)
		if instants < 100 || flushes == 0 {
			t.Errorf("%d instants, %d flushes", instants, flushes)
		}
		if n, finished := holds(t, path); n != several || !finished {
			t.Fatalf("%d samples", n)
		}
	}
}

// Discard removes only the file that Create made and its journal.
func TestDiscard(t *testing.T) {
	for name, c := range map[string]struct {
		before, during func(path string) error
		left           []string
	}{
		"no file":    {},
		"empty file": {before: func(path string) error { return os.WriteFile(path, nil, 0o600) }},
		"a file":     {before: func(path string) error { return os.WriteFile(path, finished(t), 0o600) }, left: []string{"x.tach"}},
		"removed":    {during: os.Remove},
		"moved":      {during: func(path string) error { return os.Rename(path, path+".moved") }, left: []string{"x.tach.moved"}},
		"replaced": {during: func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("another's"), 0o600))
		}, left: []string{"x.tach"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "x.tach")
			var errs [3]error
			if c.before != nil {
				errs[0] = c.before(path)
			}
			w := testenv.Must(Create(path, Options{Sync: time.Second}))
			n, err := feed(w, 0, 100)
			if errs[1] = err; c.during != nil {
				errs[2] = c.during(path)
			}
			testenv.OK(t, errors.Join(errs[:]...))
			// If the file was removed or replaced, Discard returns the same error as Close.
			if err := w.Discard(); (err != nil) != (c.during != nil) {
				t.Errorf("Discard: %v", err)
			}
			if err := w.Write(&tachyon.Sample{}); err == nil {
				t.Error("the writer is not closed")
			}
			if err := w.Discard(); (err != nil) != (c.during != nil) {
				t.Errorf("Discard again: %v", err)
			}
			files := testenv.Must(os.ReadDir(dir))
			var left []string
			for _, f := range files {
				left = append(left, f.Name())
			}
			if !slices.Equal(left, c.left) {
				t.Errorf("%q is left, not %q", left, c.left)
			}
			if b, err := os.ReadFile(path); name == "replaced" && (err != nil || string(b) != "another's") {
				t.Errorf("the other file is now %q, %v", b, err)
			}
			if name == "a file" {
				if got, finished := holds(t, path); got != n || !finished {
					t.Errorf("%d samples of %d", got, n)
				}
			}
		})
	}
}
