//go:build darwin || dragonfly || freebsd || linux || netbsd

package rotate

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

var update = flag.Bool("update", false, "update this part of docs/faults.md")

// heading is the heading of the part of docs/faults.md that this test writes.
const heading = "\n## Faults between two files of a session\n"

// noJournals makes a disk full for new journals.
func noJournals(err error) (undo func()) {
	old := journal.Reserve
	journal.Reserve = func(f *os.File, off, size int64) error { return os.NewSyscallError("fallocate", err) }
	return func() { journal.Reserve = old }
}

// must returns what undoes a fault that stays, and panics if it was not made.
func must(err error) (undo func()) { return testenv.Must(func() {}, err) }

// Each fault lasts from just before the second file begins, after 1 s of samples, until one
// second later.
var faults = []struct {
	fault, moment string
	begin         func(dir string) (undo func())
	finish        func(*writer.Writer) error
}{
	{"disk full", "the next file is made", func(string) func() { return noJournals(syscall.ENOSPC) }, nothing},
	{"quota used up", "the next file is made", func(string) func() { return noJournals(syscall.EDQUOT) }, nothing},
	{"I/O error", "the next file is made", func(string) func() { return noJournals(syscall.EIO) }, nothing},
	{"the next file's name is taken", "it is made", func(dir string) func() { return must(os.Symlink("victim", dir+"/x.2.tach")) }, nothing},
	{"the old file is removed", "it is written", func(dir string) func() { return must(os.Remove(dir + "/x.1.tach")) }, nothing},
	{"the old file's metadata cannot be added", "it is finished", func(string) func() { return func() {} },
		func(*writer.Writer) error { return errors.New("the metadata error") }},
}

// TestFaultTable tries each fault and compares its result with the docs.
func TestFaultTable(t *testing.T) {
	var b strings.Builder
	b.WriteString(heading + "\nA session begins a new file for `PROFILE_ROTATE`, or when a file is full. If that fails, it\n" +
		"continues in the old file and tries again 10 s later.\n\n" +
		"If a file takes no more samples, because of a fault in the first table, the session drops samples\n" +
		"and tries to begin a new file every second, with rotation or without. If new files soon have faults\n" +
		"too, the next one comes later, up to 64 s; without rotation the session ends after 100 of them. The\n" +
		"file's metadata and `Stats` have the lost time as `Unwritten` and the samples as `Dropped`, and a\n" +
		"warning says both (`TestFullDiskForAWhile`).\n\n" +
		"A test tries each case and writes this table:\n" +
		"`go test ./internal/rotate -run TestFaultTable -update`.\n\n" +
		"| fault | while | result |\n|---|---|---|\n")
	for _, f := range faults {
		result := try(t, func(*writer.Writer, uint64) error { return nil }, f.begin, f.finish)
		fmt.Fprintf(&b, "| %s | %s | %s |\n", f.fault, f.moment, result)
	}
	fmt.Fprintf(&b, "| the program is killed | the old file is finished | no error; `gotach recover` finishes both files with all samples up to the fault |\n")

	const path = "../../docs/faults.md"
	text := testenv.Must(os.ReadFile(path))
	before, part, _ := strings.Cut(string(text), heading)
	if *update {
		testenv.OK(t, os.WriteFile(path, []byte(before+b.String()), 0o666))
	} else if b.String() != heading+part {
		t.Errorf("the table is now:\n%s", b.String())
	}
}

// If Begin fails for a new file, the session goes on as with the faults of the table.
func TestBeginFails(t *testing.T) {
	broken, begun := false, 0
	result := try(t, func(*writer.Writer, uint64) error {
		if begun++; broken {
			return errors.New("no")
		}
		return nil
	}, func(string) func() {
		broken = true
		return func() { broken = false }
	}, nothing)
	testenv.Same(t, "result", result, "session error: rotation cannot make a new file and continues the old one: no; the session continues in the old file, and no sample is lost")
	testenv.Within(t, "calls of Begin", begun, 3, 20)
}

// try runs a session of 150 samples with a fault and describes the outcome.
func try(t *testing.T, began func(*writer.Writer, uint64) error, fault func(dir string) (undo func()), finish func(*writer.Writer) error) string {
	var failed []error
	o := options(t)
	o.Begin = began
	o.Failed = func(err error) { failed = append(failed, err) }
	w, dir := begin(t, o)
	fill(t, w, 5, finish)
	undo := fault(dir)
	fill(t, w, 15, finish)
	w.Settle()
	undo()
	fill(t, w, 130, nothing)
	end(t, w, nothing)
	rest := slices.DeleteFunc(inside(t, dir), func(name string) bool { return slices.Contains(names(w.Files()), name) })
	testenv.FailIf(t, len(rest) > 1 || len(rest) == 1 && rest[0] != "x.2.tach", "also in the directory: %q", rest)
	return outcome(t, w, failed)
}

// outcome describes the error and the state of a session of 150 samples in words.
func outcome(t *testing.T, w *Writer, failed []error) string {
	said := "no error"
	if len(failed) > 0 {
		said = "session error: " + failed[0].Error()
	}
	for err, text := range map[error]string{syscall.ENOSPC: "the disk error", syscall.EDQUOT: "the disk error", syscall.EIO: "the disk error", os.ErrNotExist: "the file was removed"} {
		if len(failed) == 1 && errors.Is(failed[0], err) {
			said = "session error: " + text
		}
	}
	var all []int
	for _, path := range w.Files() {
		testenv.OK(t, testenv.Err(recovery.Finish(path)))
		all = append(all, times(t, path)...)
	}
	switch {
	case slices.Equal(all, upTo(1, 150)) && len(times(t, w.Files()[0])) > 10:
		return said + "; the session continues in the old file, and no sample is lost"
	case slices.Equal(all, upTo(1, 150)):
		return said + "; all files are complete"
	case slices.Equal(all, upTo(11, 150)):
		return said + "; the other files are complete"
	}
	return fmt.Sprintf("%s; samples of %v", said, all)
}

// A program is killed while one file is being finished and the next one is being written.
// Both files can be recovered.
func TestKilledBetweenFiles(t *testing.T) {
	w, dir := begin(t, options(t))
	hold, goOn := make(chan bool), make(chan bool)
	fill(t, w, 10, nil)
	w.Next(w.last, func() func(*writer.Writer) error {
		return func(*writer.Writer) error { hold <- true; <-goOn; return nil }
	})
	<-hold
	for range 3 {
		write(t, w, 100_000, 0)
	}
	w.last = start + 100_000_000
	testenv.Same(t, "a third file before the first one is finished", w.Full(), false)
	// A kill would leave the files in their present state.
	dead := t.TempDir()
	testenv.OK(t, os.CopyFS(dead, os.DirFS(dir)))
	goOn <- true
	end(t, w, nothing)
	for file, want := range map[string][]int{"x.1.tach": upTo(1, 10), "x.2.tach": upTo(11, 13)} {
		for _, path := range []string{filepath.Join(dir, file), filepath.Join(dead, file)} {
			testenv.SameList(t, path, times(t, path), want)
		}
		path := filepath.Join(dead, file)
		testenv.Same(t, "finished before", testenv.Must(recovery.Finish(path)).Finished, false)
		testenv.SameList(t, path+", recovered", times(t, path), want)
	}
}

// Of the unfinished files of killed programs the first one and the latest ones stay. Finished files stay, and unfinished
// files of programs that run.
func TestKilledOften(t *testing.T) {
	w, dir := begin(t, options(t))
	fill(t, w, 5, nil)
	dead := t.TempDir()
	const killed = 20
	for n := range killed {
		for _, end := range []string{"", ".journal"} {
			b := testenv.Must(os.ReadFile(filepath.Join(dir, "x.1.tach"+end)))
			testenv.OK(t, os.WriteFile(filepath.Join(dead, fmt.Sprintf("x.%d.tach%s", n+1, end)), b, 0o600))
		}
	}
	end(t, w, nothing)
	var said []string
	o := options(t)
	o.Deleting = func(paths []string) {
		for _, path := range paths {
			_ = testenv.Must(os.Stat(path))
			said = append(said, filepath.Base(path))
		}
	}
	running := testenv.Must(Create(filepath.Join(dead, "x.tach"), o))
	testenv.SameList(t, "is left", inside(t, dead), []string{"x.1.tach", "x.1.tach.journal", "x.19.tach", "x.19.tach.journal", "x.20.tach", "x.20.tach.journal", "x.21.tach", "x.21.tach.journal"})
	testenv.Prints(t, "said to be deleted", fmt.Sprint(killed-3, " x.2.tach x.18.tach"), len(said), said[0], said[len(said)-1])
	end(t, running, nothing)
}

// crowd makes new functions until the file takes no more samples: the journal has to grow, and the disk is full.
func crowd(t *testing.T, w *Writer) {
	t.Helper()
	for i := 0; !w.broken; i++ {
		testenv.StopIf(t, i > 100_000, "the disk is not full")
		id := w.Intern(tachyon.Frame{Func: fmt.Sprint(strings.Repeat("f", 100), w.last, i)})
		testenv.OK(t, testenv.Err(w.WriteBatch([]tachyon.Sample{{Thread: 1, Time: w.last, Stack: []uint32{id}}})))
	}
}

// lose writes n samples at intervals of 100 ms, of which the Writer takes none, and returns how often it tried to make a file.
func lose(t *testing.T, w *Writer, n int) (tries int) {
	t.Helper()
	for range n {
		tries += turn(w, nothing)
		testenv.Same(t, "accepted", testenv.Must(w.WriteBatch([]tachyon.Sample{{Thread: 1, Time: w.last + 100_000, Stack: []uint32{w.Intern(tachyon.Frame{Func: "lost"})}}})), 0)
		testenv.OK(t, errors.Join(w.Forget(7, 0), w.WriteRecords(&tachyon.Records{Objects: []tachyon.Object{{Number: 1}}}), w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{{ID: 1}}})))
	}
	return tries
}

// While the disk is full, or the folder is gone, samples are dropped. When there is space, the session goes on in a new file, with rotation
// and without, and the old one is finished with all samples that it had taken. A new file is tried once in a second.
func TestFullDiskForAWhile(t *testing.T) {
	for _, c := range []struct {
		every time.Duration
		gone  bool
	}{{time.Hour, false}, {0, false}, {time.Hour, true}} {
		o := options(t)
		o.Every = c.every
		var failed []error
		o.Failed = func(err error) { failed = append(failed, err) }
		w, dir := begin(t, o)
		fill(t, w, 9, nothing)
		undo := noJournals(syscall.ENOSPC)
		crowd(t, w)
		from := int(w.last-start)/100_000 + 1
		if c.gone {
			undo()
			testenv.OK(t, os.Rename(dir, dir+".away"))
			undo = func() { testenv.OK(t, os.Rename(dir+".away", dir)) }
		}
		testenv.Same(t, "tries in 3.5 s", lose(t, w, 35), 3)
		if !c.gone {
			testenv.Same(t, "files while the disk is full", len(inside(t, dir)), 2)
		}
		undo()
		lose(t, w, 5)
		until := int(w.last-start) / 100_000
		turn(w, nothing)
		fill(t, w, 20, nothing)
		end(t, w, nothing)
		testenv.Within(t, "errors", len(failed), 1, 2)
		testenv.Is(t, "the first error", failed[0], syscall.ENOSPC)
		testenv.Fails(t, "the first error", failed[0], "dropped until")
		var all []int
		for _, path := range w.Files() {
			all = append(all, times(t, path)...)
		}
		testenv.SameList(t, c, slices.Compact(all), append(upTo(1, from-1), upTo(until+1, until+20)...))
		testenv.SameList(t, c, inside(t, dir), slices.Sorted(slices.Values(names(w.Files()))))
		testenv.Same(t, "files", len(w.Files()), 2)
	}
}

// On a disk that is nearly full a new file comes later and later, and a session without rotation ends after many of them. A file
// that cannot be finished takes its journal's bytes of those that are kept.
func TestFullDiskAgainAndAgain(t *testing.T) {
	testenv.Long(t)
	for _, every := range []time.Duration{time.Hour, 0} {
		o := options(t)
		o.Every, o.Keep = every, 5
		o.Failed = func(error) {}
		w, dir := begin(t, o)
		old := journal.Reserve
		defer func() { journal.Reserve = old }()
		journal.Reserve = func(f *os.File, off, size int64) error {
			if off > 0 {
				return syscall.ENOSPC
			}
			return old(f, off, size)
		}
		var err error
		for faults := 0; faults < maxFaults+5 && err == nil; faults++ {
			for i := 0; !w.broken && err == nil; i++ {
				id := w.Intern(tachyon.Frame{Func: fmt.Sprint(strings.Repeat("f", 50_000), faults, i)})
				_, err = w.WriteBatch([]tachyon.Sample{{Thread: 1, Time: w.last + 1, Stack: []uint32{id}}})
			}
			if err == nil {
				wait := w.retry - w.last
				testenv.StopIf(t, faults > 8 && wait != maxWait || faults == 0 && wait != minWait, "after %d faults the Writer waits for %d µs", faults, wait)
				w.last = w.retry
				turn(w, nothing)
			}
		}
		ends, most := err != nil, 5
		if every == 0 {
			most = maxFaults + 1
			testenv.Same(t, "the last file", w.number, most)
		}
		testenv.Same(t, fmt.Sprint("the session ends with ", err), ends, every == 0)
		_ = w.Close(nothing)
		testenv.Within(t, "files that are left", len(testenv.Files(t, dir+"/*.tach", 1)), 1, most)
	}
}
