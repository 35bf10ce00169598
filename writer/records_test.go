//go:build darwin || dragonfly || freebsd || linux || netbsd

package writer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

func aGoroutine(i int) tachyon.Goroutine {
	return tachyon.Goroutine{ID: uint64(i + 1), CreatedBy: "main.main", First: uint64(i), Last: uint64(2 * i),
		Labels: []tachyon.LabelSpan{{From: uint64(i), Labels: map[string]string{"n": fmt.Sprint("value ", i)}}}}
}

func addGoroutine(w *Writer, i int) error {
	return w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{aGoroutine(i)}})
}

// goroutinesIn returns how many goroutines of aGoroutine a file has. It fails if one before the last
// is missing or wrong.
func goroutinesIn(t *testing.T, path string) (n int, progress time.Duration) {
	t.Helper()
	r, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if present, err := r.VerifyChecksum(); !present || err != nil {
		t.Fatalf("checksum: %t, %v", present, err)
	}
	m, err := r.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range m.Goroutines {
		want := aGoroutine(i)
		if g.ID != want.ID || g.Last != want.Last || g.CreatedBy != want.CreatedBy || len(g.Labels) != 1 || g.Labels[0].Labels["n"] != want.Labels[0].Labels["n"] {
			t.Fatalf("goroutine %d is %+v", i, g)
		}
	}
	if m.Session != nil {
		progress = m.Session.Duration
	}
	return len(m.Goroutines), progress
}

// At no instant is a record in two places or in none, also where a block is full and where a sync
// ends one. The latest progress or the one before it is there.
func TestEveryInstantOfRecords(t *testing.T) {
	for _, o := range []Options{{}, {Uncompressed: true}, {Sync: time.Hour}} {
		dir := t.TempDir()
		path, left := filepath.Join(dir, "x.tach"), filepath.Join(dir, "left.tach")
		w, err := Create(path, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Provisional(tachyon.KindSession, tachyon.Session{PID: 1}); err != nil {
			t.Fatal(err)
		}
		taken, instants, blocks := 0, 0, 0
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
			n, progress := goroutinesIn(t, left)
			if n != taken && n != taken+1 {
				t.Fatalf("%d goroutines were accepted, a kill leaves %d", taken, n)
			}
			if i := int(progress); i != taken && i != taken+1 {
				t.Fatalf("the progress is %d of %d", i, taken)
			}
		}
		const goroutines = 22_000
		for ; taken < goroutines; taken++ {
			full := len(w.records.open) > wire.BlockSize-60
			if full {
				blocks++
			}
			if journal.AfterStore = nil; taken < 20 || full || taken%3001 == 0 {
				journal.AfterStore = look
			}
			if err := addGoroutine(w, taken); err != nil {
				t.Fatal(err)
			}
			if taken%10_000 == 9999 {
				taken++
				if err := w.records.seal(); err != nil { // as a sync does
					t.Fatal(err)
				}
				taken--
			}
			if err := w.WriteRecords(&tachyon.Records{Progress: &tachyon.Progress{Duration: time.Duration(taken + 1)}}); err != nil {
				t.Fatal(err)
			}
		}
		journal.AfterStore = look
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		journal.AfterStore = nil
		if instants < 60 || blocks < 3 {
			t.Errorf("%d instants, %d full blocks", instants, blocks)
		}
		if n, _ := goroutinesIn(t, path); n != goroutines {
			t.Fatalf("%d goroutines", n)
		}
	}
}

// If the disk is full when the journal has to grow, the file still gets all records.
func TestRecordsOnFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	w, err := Create(path, Options{Uncompressed: true})
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("the disk is full")
	old := journal.Reserve
	defer func() { journal.Reserve = old }()
	journal.Reserve = func(*os.File, int64, int64) error { return full }
	n := 0
	for err = nil; err == nil && n < 1_000_000; n++ {
		err = addGoroutine(w, n)
	}
	if !errors.Is(err, full) {
		t.Fatal(err)
	}
	for range 10_000 { // such as at the end of a session
		if err := addGoroutine(w, n); err != nil {
			t.Fatal(err)
		}
		n++
	}
	if err := w.Close(); !errors.Is(err, full) {
		t.Fatal(err)
	}
	if got, _ := goroutinesIn(t, path); got != n {
		t.Errorf("%d of %d goroutines", got, n)
	}
}

// A truncated journal costs the blocks that were in it, not the program.
func TestRecordsOfTruncatedJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	w, err := Create(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AddMetadata("session", tachyon.Session{}); err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		if err := addGoroutine(w, i); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(path+journal.Suffix, 0); err != nil {
		t.Fatal(err)
	}
	if err := addGoroutine(w, 0); !errors.Is(err, errTruncated) {
		t.Error(err)
	}
	if err := w.Close(); !errors.Is(err, errTruncated) {
		t.Error(err)
	}
	r, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.VerifyChecksum(); err != nil {
		t.Error(err)
	}
	if m, err := r.Metadata(); err != nil || len(m.Goroutines) == 0 {
		t.Errorf("%v, %v", m, err)
	}
}
