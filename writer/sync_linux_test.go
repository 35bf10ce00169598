package writer

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/recovery"
)

// After a crash of the machine, the synced samples can be read, even if all other data are
// lost: the journal's buffer and slots, and the file after the last synced point.
func TestMachineCrash(t *testing.T) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	boot = bytes.TrimSpace(boot)
	for _, uncompressed := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "x.tach")
		w, err := Create(path, Options{Sync: 100 * time.Millisecond, Uncompressed: uncompressed})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		last := 0
		for n := 3500; n <= 20_000; n += 2500 {
			// Write at the speed of the disk; a profiled program is much slower.
			for ; last < n; last += 250 {
				if _, err := feed(w, last, last+250); err != nil {
					t.Fatal(err)
				}
				for w.sync.busy.Load() {
					time.Sleep(time.Millisecond)
				}
			}
			// A sample 100 ms (1000 samples) or more after the last point begins the next
			// point. So at most these samples may be missing.
			file, _ := os.ReadFile(path)
			j, err := os.ReadFile(path + journal.Suffix)
			if err != nil {
				t.Fatal(err)
			}
			booted := bytes.Replace(j, boot, bytes.Repeat([]byte("0"), len(boot)), 1)
			if bytes.Equal(booted, j) {
				t.Fatal("the journal has no boot ID")
			}
			st := loadState(t, file, booted)
			for i := 64 << 10; i < 576<<10; i++ { // the buffer
				booted[i] = byte(rand.Uint32())
			}
			for i := 64; i < 256; i++ { // the commit word and the points
				booted[i] = byte(rand.Uint32())
			}
			file = file[:st.Point.Offset]
			crashed := filepath.Join(t.TempDir(), "y.tach")
			os.WriteFile(crashed, append(file, "what was on the disk before"...), 0o600)
			os.WriteFile(crashed+journal.Suffix, booted, 0o600)
			if _, err := recovery.Finish(crashed); err != nil {
				t.Fatal(err)
			}
			got, finished := holds(t, crashed)
			if !finished || got < n-2000 || got > n {
				t.Errorf("%d of %d samples after a crash", got, n)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if n, finished := holds(t, path); n != last || !finished {
			t.Errorf("%d of %d samples", n, last)
		}
	}
}

func loadState(t *testing.T, file, j []byte) *journal.State {
	path := filepath.Join(t.TempDir(), "z.tach")
	os.WriteFile(path, file, 0o600)
	os.WriteFile(path+journal.Suffix, j, 0o600)
	st, err := journal.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return st
}
