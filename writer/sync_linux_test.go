package writer

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/unfinished"
	"github.com/gotach/profiler/tachyon"
)

// After a crash of the machine, the synced samples can be read, even if all other data are
// lost: the journal's buffer and slots, and the file after the last synced point.
func TestMachineCrash(t *testing.T) {
	testenv.Again(t)
	boot := bytes.TrimSpace(testenv.Must(os.ReadFile("/proc/sys/kernel/random/boot_id")))
	for _, uncompressed := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "x.tach")
		w := testenv.Closes(t, testenv.Must(Create(path, Options{Sync: 100 * time.Millisecond, Uncompressed: uncompressed})))
		told := tachyon.Records{Goroutines: []tachyon.Goroutine{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}}, Progress: &tachyon.Progress{Duration: time.Hour}}
		testenv.OK(t, errors.Join(w.Provisional(tachyon.KindSession, tachyon.Session{}), w.WriteRecords(&told))) // nobody knows how long they waited
		last := 0
		for n := 3500; n <= 9000; n += 2500 {
			// Write at the speed of the disk; a profiled program is much slower.
			for ; last < n; last += 250 {
				testenv.OK(t, testenv.Err(feed(w, last, last+250)))
				testenv.Await(func() bool { return !w.sync.busy.Load() })
			}
			// A sample 100 ms (1000 samples) or more after the last point begins the next
			// point. So at most these samples may be missing.
			file, _ := os.ReadFile(path)
			j := testenv.Must(os.ReadFile(path + journal.Suffix))
			booted := bytes.Replace(j, boot, bytes.Repeat([]byte("0"), len(boot)), 1)
			testenv.Same(t, "the journal has a boot ID", bytes.Equal(booted, j), false)
			crashed := filepath.Join(t.TempDir(), "y.tach")
			testenv.OK(t, errors.Join(os.WriteFile(crashed, file, 0o600), os.WriteFile(crashed+journal.Suffix, booted, 0o600)))
			st := testenv.Must(unfinished.Load(crashed))
			for i := 64 << 10; i < 576<<10; i++ { // the buffer
				booted[i] = byte(rand.Uint32())
			}
			for i := 64; i < 256; i++ { // the commit word and the points
				booted[i] = byte(rand.Uint32())
			}
			file = append(file[:st.Point.Offset], "what was on the disk before"...)
			testenv.OK(t, errors.Join(os.WriteFile(crashed, file, 0o600), os.WriteFile(crashed+journal.Suffix, booted, 0o600)))
			testenv.OK(t, testenv.Err(recovery.Finish(crashed)))
			got, finished := holds(t, crashed)
			testenv.FailIf(t, !finished || got < n-2000 || got > n, "%d of %d samples after a crash", got, n)
		}
		testenv.OK(t, w.Close())
		keeps(t, path, last, true)
	}
}

// After a sync that fails, the writer takes no more samples and returns the error.
func TestSyncFails(t *testing.T) {
	dir := t.TempDir()
	w := testenv.Must(Create(filepath.Join(dir, "x.tach"), Options{Sync: time.Millisecond}))
	closed, err := os.Create(filepath.Join(dir, "closed"))
	testenv.OK(t, errors.Join(err, closed.Close()))
	w.sync.file = closed
	for last := 0; err == nil && last < 1_000_000; last += 250 {
		err = testenv.Err(feed(w, last, last+250))
		testenv.Await(func() bool { return !w.sync.busy.Load() })
	}
	testenv.FailIf(t, !errors.Is(err, os.ErrClosed) || !errors.Is(w.Close(), os.ErrClosed), "after a failed sync: %v", err)
}
