//go:build darwin || dragonfly || freebsd || linux || netbsd

package writer

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

var update = flag.Bool("update", false, "update docs/faults.md")

// faults are the rows of the table in docs/faults.md: the fault, the moment, and a test
// that returns the result in words.
var faults = []struct {
	fault, moment string
	run           func(t *testing.T, path string) string
}{
	{"disk full, quota used up, I/O error", "the file is made", atCreate(func(string) func() {
		return failReserve(syscall.ENOSPC, func(int64) bool { return true })
	})},
	{"disk full, quota used up, I/O error", "samples are written, once", writeFails(syscall.ENOSPC, func(writes int) int { return 2 }, true)},
	{"disk full, quota used up, I/O error", "samples are written, and from then on", writeFails(syscall.ENOSPC, func(writes int) int { return 2 }, false)},
	{"disk full, quota used up, I/O error", "the tables are written at the end", writeFails(syscall.ENOSPC, func(writes int) int { return writes - 1 }, false)},
	{"disk full, quota used up, I/O error", "the header is written at the end", writeFails(syscall.ENOSPC, func(writes int) int { return writes }, false)},
	{"disk full, quota used up, I/O error", "the journal has to grow", while(func(path string) func() {
		return failReserve(syscall.ENOSPC, func(off int64) bool { return off > 0 })
	})},
	{"the file is removed", "samples are written", while(func(path string) func() { os.Remove(path); return nil })},
	{"the directory is removed", "samples are written", while(func(path string) func() { os.RemoveAll(filepath.Dir(path)); return nil })},
	{"the file is replaced by another", "samples are written", while(func(path string) func() {
		os.Remove(path)
		os.WriteFile(path, []byte("another's"), 0o600)
		return nil
	})},
	{"the journal is removed", "samples are written", while(func(path string) func() { os.Remove(path + journal.Suffix); return nil })},
	{"the journal is truncated", "samples are written", while(func(path string) func() { os.Truncate(path+journal.Suffix, 0); return nil })},
	{"permissions are taken away", "samples are written", while(func(path string) func() {
		os.Chmod(path, 0)
		os.Chmod(path+journal.Suffix, 0)
		os.Chmod(filepath.Dir(path), 0o500)
		return func() { os.Chmod(filepath.Dir(path), 0o700); os.Chmod(path, 0o600) }
	})},
	{"the file system is read-only", "the file is made", func(*testing.T, string) string { return readOnlyResult }},
	{"the file system becomes read-only", "samples are written", writeFails(syscall.EROFS, func(int) int { return 2 }, false)},
	{"the clock is set back or forward", "samples are written", clockJumps},
	{"no more file descriptors", "the file is made", atCreate(func(string) func() { return noDescriptors() })},
	{"no more file descriptors", "samples are written", while(func(string) func() { return noDescriptors() })},
	{"another process writes the same file", "the file is made", atCreate(func(path string) func() {
		w := testenv.Must(Create(path, Options{}))
		return func() { w.Close() }
	})},
	{"a symbolic link has the journal's name", "the file is made", atCreate(func(path string) func() {
		os.WriteFile(filepath.Join(filepath.Dir(path), "victim"), []byte("precious"), 0o600)
		os.Symlink("victim", path+journal.Suffix)
		return nil
	})},
	{"the program is killed", "any", while(func(path string) func() { return nil }, abandon)},
}

// readOnlyResult is what TestPeerReadOnly finds, since only root can make a file system read-only.
const readOnlyResult = "no session; error: read-only file system"

// failReserve makes the disk full for journals.
func failReserve(err error, when func(off int64) bool) (undo func()) {
	old := journal.Reserve
	journal.Reserve = func(f *os.File, off, size int64) error {
		if when(off) {
			return os.NewSyscallError("fallocate", err)
		}
		return old(f, off, size)
	}
	return func() { journal.Reserve = old }
}

// noDescriptors uses up the process's file descriptors.
func noDescriptors() func() {
	var old syscall.Rlimit
	must := func(err error) { testenv.Must(0, err) }
	must(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old))
	f := testenv.Must(os.Open(os.DevNull))
	low := old
	low.Cur = 3
	must(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	return func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); f.Close() }
}

// atCreate tests a fault that exists when the file is made.
func atCreate(begin func(path string) (end func())) func(*testing.T, string) string {
	return func(t *testing.T, path string) string {
		end := begin(path)
		w, err := Create(path, Options{})
		if end != nil {
			defer end()
		}
		if err != nil {
			return "no session; error: " + kindOf(err)
		}
		return finishAndTell(t, w, path, 1000)
	}
}

// writeFails tests an error of the disk. which returns the number of the first write that fails.
func writeFails(errno error, which func(writes int) int, once bool) func(*testing.T, string) string {
	return func(t *testing.T, path string) string {
		w, f := createFaulty(t, path+"0", Options{})
		feed(w, 0, several)
		testenv.OK(t, w.Close())
		writes := f.writes
		w, f = createFaulty(t, path, Options{})
		f.err, f.fail, f.once = errno, which(writes), once
		return finishAndTell(t, w, path, several)
	}
}

// clockJumps writes samples whose times jump like those of a wall clock that is set. The
// writer stores them without a change, as TestWriteThenRead checks. (The sampler uses the
// monotonic clock, which does not jump.)
func clockJumps(t *testing.T, path string) string {
	w := testenv.Must(Create(path, Options{Start: 1 << 50}))
	for i, at := range []uint64{1<<50 + 5, 1<<50 + 10, 7, 8, 1<<60 + 1, 1<<60 + 1, 1 << 50} {
		testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: 1, Time: at}, numberedFrames[:1+i/2]))
	}
	return tell(t, w.Close(), path)
}

// while tests a fault that begins between two samples.
func while(begin func(path string) (end func()), end ...func(*Writer)) func(*testing.T, string) string {
	return func(t *testing.T, path string) string {
		w := testenv.Must(Create(path, Options{}))
		testenv.OK(t, testenv.Err(feed(w, 0, several/2)))
		undo := begin(path)
		for i := range 15_000 { // a new thread and new functions, so that the journal grows
			if err := w.WriteFrames(&tachyon.Sample{Thread: 1 << 40, Time: 1}, []tachyon.Frame{{Func: fmt.Sprintf("a function with a name of some length %d", i)}}); err != nil {
				break
			}
		}
		if len(end) > 0 {
			end[0](w)
			return tell(t, nil, path)
		}
		err := w.Close()
		if undo != nil {
			undo()
		}
		return tell(t, err, path)
	}
}

// abandon closes the files as the kernel does for a process that is killed.
func abandon(w *Writer) {
	w.own.Close()
	w.j.Close()
}

func finishAndTell(t *testing.T, w *Writer, path string, samples int) string {
	warning := w.Warning()
	taken, _ := feed(w, 0, samples)
	err := w.Close()
	s := tell(t, err, path)
	if warning != nil {
		s = "a warning that the file has no journal; " + s
	}
	testenv.FailIf(t, err == nil && taken != samples, "only %d of %d samples were written, but Close returns no error", taken, samples)
	return s
}

// tell describes the error of Close and the state of the file in words.
func tell(t *testing.T, err error, path string) string {
	said := "no error"
	if err != nil {
		said = "session error: " + kindOf(err)
	}
	r, rerr := reader.Open(path)
	if rerr != nil {
		return said + "; there is no profile"
	}
	unfinished := r.Unfinished()
	testenv.OK(t, testenv.Err(r.VerifyChecksum()))
	r.Close()
	if !unfinished {
		if err == nil {
			return said + "; the file is complete"
		}
		return said + "; the file is complete up to the fault"
	}
	testenv.OK(t, testenv.Err(recovery.Finish(path)))
	return said + "; `gotach recover` finishes the file with all samples up to the fault"
}

func kindOf(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "the disk error"
	case errors.Is(err, syscall.EROFS):
		return "read-only file system"
	case errors.Is(err, syscall.EMFILE):
		return "too many open files"
	case errors.Is(err, ErrBusy):
		return "another process is writing the file"
	case errors.Is(err, errTruncated):
		return "the journal was truncated"
	case errors.Is(err, os.ErrNotExist):
		return "the file was removed"
	case strings.Contains(err.Error(), "replaced"):
		return "the file was replaced"
	}
	return err.Error()
}

const faultTable = "../docs/faults.md"

// manyFiles is the heading of the part of docs/faults.md that a test of package rotate
// writes.
const manyFiles = "\n## Faults between two files of a session\n"

// TestFaultTable tries each fault and compares the results with the table in the docs.
func TestFaultTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("# File faults and their results\n\n" +
		"The program continues in all cases. The session logs an error once, and `Session.Err` and `Stop`\n" +
		"return it. \"The disk error\" is `ENOSPC`, `EDQUOT` or `EIO`. A test tries each case and writes this\n" +
		"table: `go test ./writer -run TestFaultTable -update`.\n\n" +
		"| fault | while | result |\n|---|---|---|\n")
	for _, f := range faults {
		dir := filepath.Join(t.TempDir(), "dir")
		testenv.OK(t, os.Mkdir(dir, 0o700))
		fmt.Fprintf(&b, "| %s | %s | %s |\n", f.fault, f.moment, f.run(t, filepath.Join(dir, "x.tach")))
		v, err := os.ReadFile(filepath.Join(dir, "victim"))
		testenv.FailIf(t, err == nil && string(v) != "precious", "the link was followed")
	}
	b.WriteString("\nA sample has the wall-clock time of the start plus the monotonic time since then, so setting the\n" +
		"clock does not change it.\n")
	if *update {
		old, err := os.ReadFile(faultTable)
		_, rest, ok := strings.Cut(string(old), manyFiles)
		if ok {
			rest = manyFiles + rest
		}
		testenv.OK(t, errors.Join(err, os.WriteFile(faultTable, []byte(b.String()+rest), 0o666)))
	}
	part, _, _ := strings.Cut(string(testenv.Must(os.ReadFile(faultTable))), manyFiles)
	testenv.Same(t, "the table", b.String(), part)
}
