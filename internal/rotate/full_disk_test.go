//go:build darwin || dragonfly || freebsd || linux || netbsd

package rotate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// crowd makes new functions until the file takes no more samples: the journal has to grow, and the disk is full.
func crowd(t *testing.T, w *Writer) {
	t.Helper()
	for i := 0; !w.broken; i++ {
		if i > 100_000 {
			t.Fatal("the disk is not full")
		}
		id := w.Intern(tachyon.Frame{Func: fmt.Sprint(strings.Repeat("f", 100), w.last, i)})
		if _, err := w.WriteBatch([]tachyon.Sample{{Thread: 1, Time: w.last, Stack: []uint32{id}}}); err != nil {
			t.Fatal(err)
		}
	}
}

// lose writes n samples at intervals of 100 ms, of which the Writer takes none, and returns how often it tried to make a file.
func lose(t *testing.T, w *Writer, n int) (tries int) {
	t.Helper()
	for range n {
		if w.Full() {
			tries++
			turn(w, nothing)
		}
		if n, err := w.WriteBatch([]tachyon.Sample{{Thread: 1, Time: w.last + 100_000, Stack: []uint32{w.Intern(tachyon.Frame{Func: "lost"})}}}); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		testenv.OK(t, errors.Join(w.Forget(7, 0), w.WriteRecords(&tachyon.Records{Objects: []tachyon.Object{{Number: 1}}}), w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{{ID: 1}}})))
	}
	return tries
}

// While the disk is full samples are dropped. When there is space, the session goes on in a new file, with rotation and without,
// and the old one is finished with all samples that it had taken. A new file is tried once in a second.
func TestFullDiskForAWhile(t *testing.T) {
	for _, every := range []time.Duration{time.Hour, 0} {
		o := options(t)
		o.Every = every
		var failed []error
		o.Failed = func(err error) { failed = append(failed, err) }
		w, dir := begin(t, o)
		fill(t, w, 9, nothing)
		undo := noJournals(syscall.ENOSPC)
		crowd(t, w)
		from := int(w.last-start)/100_000 + 1
		if tries := lose(t, w, 35); tries != 3 {
			t.Errorf("%d tries in 3.5 s", tries)
		}
		if list := inside(t, dir); len(list) != 2 {
			t.Errorf("while the disk is full the directory has %q", list)
		}
		undo()
		lose(t, w, 5)
		until := int(w.last-start) / 100_000
		turn(w, nothing)
		fill(t, w, 20, nothing)
		end(t, w, nothing)
		if len(failed) != 1 && len(failed) != 2 || !errors.Is(failed[0], syscall.ENOSPC) || !strings.Contains(failed[0].Error(), "dropped until") {
			t.Errorf("%v: failed %q", every, failed)
		}
		var all []int
		for _, path := range w.Files() {
			all = append(all, times(t, path)...)
		}
		if want := append(upTo(1, from-1), upTo(until+1, until+20)...); !slices.Equal(slices.Compact(all), want) {
			t.Errorf("%v: samples of %v, want %v", every, all, want)
		}
		if left := inside(t, dir); len(left) != 2 || !slices.Equal(left, sorted(names(w.Files()))) {
			t.Errorf("%v: %q is left", every, left)
		}
	}
}

func sorted(list []string) []string { slices.Sort(list); return list }

// The folder is gone for a while, or may not be written to: the same.
func TestFolderGoneForAWhile(t *testing.T) {
	o := options(t)
	o.Every = time.Hour
	o.Failed = func(error) {}
	w, dir := begin(t, o)
	fill(t, w, 5, nothing)
	undo := noJournals(syscall.ENOSPC)
	crowd(t, w)
	undo()
	testenv.OK(t, os.Rename(dir, dir+".away"))
	lose(t, w, 25)
	testenv.OK(t, os.Rename(dir+".away", dir))
	lose(t, w, 5)
	turn(w, nothing)
	fill(t, w, 5, nothing)
	if err := w.Close(nothing); err != nil {
		t.Error(err)
	}
	if n := len(w.Files()); n != 2 {
		t.Errorf("%d files", n)
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
				if wait := w.retry - w.last; faults > 8 && wait != maxWait || faults == 0 && wait != minWait {
					t.Fatalf("after %d faults the Writer waits for %d µs", faults, wait)
				}
				w.last = w.retry
				turn(w, nothing)
			}
		}
		if split := every > 0; split != (err == nil) || !split && w.number != maxFaults+1 {
			t.Errorf("every %v: the session ends with %v at file %d", every, err, w.number)
		}
		_ = w.Close(nothing)
		if left, _ := filepath.Glob(filepath.Join(dir, "*.tach")); every > 0 && len(left) > 5 || len(left) > maxFaults+1 {
			t.Errorf("%d files are left", len(left))
		}
	}
}
