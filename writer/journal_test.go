//go:build darwin || dragonfly || freebsd || linux || netbsd

package writer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// numbered returns the nth sample of a workload in which some stacks change and some repeat.
func numbered(n int, frames []tachyon.Frame) (tachyon.Sample, []tachyon.Frame) {
	thread := n % 7
	depth, from := n/7%50, n/7*7919%200
	if thread > 3 {
		depth, from = 20, thread
	}
	return tachyon.Sample{Thread: uint64(thread + 1), Time: uint64(n) * 100, Status: tachyon.Status(n & 3)}, frames[from : from+depth]
}

var numberedFrames = func() (list []tachyon.Frame) {
	for i := range 300 {
		list = append(list, tachyon.Frame{File: fmt.Sprintf("file%d.go", i), Func: fmt.Sprintf("f%d", i), Line: int32(i)})
	}
	return list
}()

// feed writes the samples from first to n-1 of the workload, up to the first error. It
// returns the number of samples that the file has now.
func feed(w *Writer, first, n int) (int, error) {
	for i := first; i < n; i++ {
		s, stack := numbered(i, numberedFrames)
		if err := w.WriteFrames(&s, stack); err != nil {
			return i, err
		}
	}
	return n, nil
}

// holds checks that a file has the first n samples of the workload and returns n.
func holds(t testing.TB, path string) (n int, finished bool) {
	t.Helper()
	r, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.VerifyChecksum(); err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]int{}
	for s, err := range r.Samples() {
		if err != nil {
			t.Fatal(err)
		}
		want, stack := numbered(seen[s.Thread]*7+int(s.Thread)-1, numberedFrames)
		seen[s.Thread]++
		if s.Time != want.Time || s.Status != want.Status || !slices.EqualFunc(s.Stack, stack, func(id uint32, f tachyon.Frame) bool { return r.Frames()[id] == f }) {
			t.Fatalf("sample %d of thread %d is %+v, want %+v", seen[s.Thread], s.Thread, *s, want)
		}
		n++
	}
	for k := range 7 {
		if got, want := seen[uint64(k+1)], (n-k+6)/7; got != want {
			t.Fatalf("%d of %d samples are of thread %d, want %d", got, n, k+1, want)
		}
	}
	return n, !r.Unfinished()
}

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
	w, err := Create(path, o)
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{File: w.own}
	w.f, w.out.f = f, f
	return w, f
}

// Each write in turn fails, once or from then on, with different errors. No accepted sample
// is lost: Close finishes the file, or recovery finishes it when the disk works again.
func TestEveryWriteFailsWithJournal(t *testing.T) {
	testenv.Again(t)
	const samples = 30_000
	for _, uncompressed := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "x.tach")
		w, f := createFaulty(t, path, Options{Uncompressed: uncompressed})
		if n, err := feed(w, 0, samples); n != samples {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		writes := f.writes
		if n, finished := holds(t, path); n != samples || !finished {
			t.Fatal(n, finished)
		}
		for fail := 1; fail <= writes; fail++ {
			for i, errno := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
				for _, once := range []bool{true, false} {
					w, f := createFaulty(t, path, Options{Uncompressed: uncompressed})
					f.err, f.fail, f.once = errno, fail, once
					taken, err := feed(w, 0, samples)
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
						if _, err := recovery.Finish(path); err != nil {
							t.Fatal(err)
						}
						if n, finished = holds(t, path); n != taken || !finished {
							t.Fatalf("write %d of %d fails: %d samples were accepted, %d recovered", fail, writes, taken, n)
						}
					}
					if _, err := os.Stat(path + journal.Suffix); err == nil {
						t.Fatal("the journal is still there")
					}
				}
				if i == 0 && fail > 3 && fail < writes-3 {
					break // in the middle one errno is enough
				}
			}
		}
	}
}

// The writer follows a symbolic link of the user, and the journal is beside the link's
// target. It does not follow links of other users.
func TestLinks(t *testing.T) {
	for name, there := range map[string]bool{"to a file": true, "to nothing": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			target, link := filepath.Join(dir, "target.tach"), filepath.Join(dir, "link.tach")
			if err := os.Symlink("target.tach", link); err != nil {
				t.Fatal(err)
			}
			if there {
				if err := os.WriteFile(target, []byte("something longer than a header, and of no interest to us at all"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			w, err := Create(link, Options{})
			if err != nil {
				t.Fatal(err)
			}
			n, err := feed(w, 0, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(target + journal.Suffix); err != nil {
				t.Error(err)
			}
			for _, path := range []string{link, target} {
				if got, finished := holds(t, path); got != n || finished {
					t.Errorf("%s: %d samples, want %d", path, got, n)
				}
			}
			abandon(w)
			if _, err := recovery.Finish(link); err != nil {
				t.Fatal(err)
			}
			if got, finished := holds(t, target); got != n || !finished {
				t.Errorf("%d samples, want %d", got, n)
			}
			if err := os.Lchown(link, 12345, -1); err != nil {
				testenv.Missing(t, "another user's link", "only root may make one: "+err.Error())
			}
			if _, err := Create(link, Options{}); err == nil {
				t.Error("another user's link is followed")
			}
			if got, _ := holds(t, target); got != n {
				t.Errorf("%d samples, want %d", got, n)
			}
		})
	}
}

// Only the owner can read files and journals.
func TestModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	w, err := Create(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, name := range []string{path, path + journal.Suffix} {
		if fi, err := os.Stat(name); err != nil || fi.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, fi, err)
		}
	}
}

// A kill after any store into the journal leaves the accepted samples, each once, and at
// most also the sample that is being written.
func TestEveryInstant(t *testing.T) {
	for _, uncompressed := range []bool{false, true} {
		dir := t.TempDir()
		path, left := filepath.Join(dir, "x.tach"), filepath.Join(dir, "left.tach")
		w, err := Create(path, Options{Uncompressed: uncompressed})
		if err != nil {
			t.Fatal(err)
		}
		taken, instants := 0, 0
		defer func() { journal.AfterStore = nil }()
		look := func() {
			instants++
			for _, suffix := range []string{"", journal.Suffix} {
				b, err := os.ReadFile(path + suffix)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(left+suffix, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if n, _ := holds(t, left); n != taken && n != taken+1 {
				t.Fatalf("%d samples were accepted, a kill leaves %d", taken, n)
			}
		}
		const samples = 25_000
		flushes := 0
		for ; taken < samples; taken++ {
			// Check at the start, where everything is new, and around flushes.
			full := cap(w.out.buf)-len(w.out.buf) < maxRecord
			if full {
				flushes++
			}
			if journal.AfterStore = nil; taken < 150 || full || taken%3001 == 0 {
				journal.AfterStore = look
			}
			if _, err := feed(w, taken, taken+1); err != nil {
				t.Fatal(err)
			}
			if journal.AfterStore != nil {
				taken++
				look()
				taken--
			}
		}
		journal.AfterStore = nil
		w.Forget(5, 0)
		journal.AfterStore = look
		if err := w.Close(); err != nil { // writes the repeats of all threads
			t.Fatal(err)
		}
		journal.AfterStore = nil
		if instants < 200 || flushes == 0 {
			t.Errorf("%d instants, %d flushes", instants, flushes)
		}
		if n, finished := holds(t, path); n != samples || !finished {
			t.Fatalf("%d samples", n)
		}
	}
}

// If a journal is truncated while a batch is written, WriteBatch returns an error. A memory
// fault must not end the program.
func TestTruncatedInBatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	w, err := Create(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	id := w.Intern(tachyon.Frame{Func: "f"})
	batch := []tachyon.Sample{{Thread: 1, Stack: []uint32{id}}, {Thread: 2, Stack: []uint32{id}}}
	if n, err := w.WriteBatch(batch); n != 2 || err != nil {
		t.Fatalf("%d samples, %v", n, err)
	}
	if err := os.Truncate(path+journal.Suffix, 0); err != nil {
		t.Fatal(err)
	}
	batch[0].Thread = 3
	for range 2 {
		if n, err := w.WriteBatch(batch); n != 0 || !errors.Is(err, errTruncated) {
			t.Errorf("%d samples, %v", n, err)
		}
	}
	if err := w.Close(); !errors.Is(err, errTruncated) {
		t.Errorf("Close: %v", err)
	}
}
