//go:build darwin || dragonfly || freebsd || linux || netbsd

package writer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// aGoroutine returns the ith goroutine. Its label is long, so that few goroutines fill a block.
func aGoroutine(i int) tachyon.Goroutine {
	return tachyon.Goroutine{ID: uint64(i + 1), CreatedBy: "main.main", First: uint64(i), Last: uint64(2 * i),
		Labels: []tachyon.LabelSpan{{From: uint64(i), Labels: map[string]string{"n": fmt.Sprint(strings.Repeat("value ", 40), i)}}}}
}

// goroutines is a number of goroutines that fills several blocks.
const goroutines = 2000

func addGoroutine(w *Writer, i int) error {
	return w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{aGoroutine(i)}})
}

func createRecords(t *testing.T, o Options) (w *Writer, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x.tach")
	w = testenv.Must(Create(path, o))
	return w, path
}

func metadata(t *testing.T, path string) *tachyon.Metadata {
	t.Helper()
	r := testenv.Must(reader.Open(path))
	defer r.Close()
	testenv.Same(t, "a checksum", testenv.Must(r.VerifyChecksum()), true)
	return testenv.Must(r.Metadata())
}

// goroutinesIn returns how many goroutines of aGoroutine a file has. It fails if one before the last
// is missing or wrong.
func goroutinesIn(t *testing.T, path string) (n int, progress time.Duration) {
	t.Helper()
	m := metadata(t, path)
	for i, g := range m.Goroutines {
		if want := aGoroutine(i); !reflect.DeepEqual(g, want) {
			t.Fatalf("goroutine %d is %+v, want %+v", i, g, want)
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
	testenv.Long(t)
	defer func() { journal.AfterStore = nil }()
	for _, o := range []Options{{}, {Uncompressed: true, Sync: time.Hour}} {
		w, path := createRecords(t, o)
		testenv.OK(t, w.Provisional(tachyon.KindSession, tachyon.Session{PID: 1}))
		taken, instants, blocks := 0, 0, 0
		look := func() {
			instants++
			n, progress := goroutinesIn(t, path)
			if i := int(progress); n != taken && n != taken+1 || i != taken && i != taken+1 {
				t.Fatalf("%d goroutines were accepted, a kill leaves %d and the progress %d", taken, n, i)
			}
		}
		for ; taken < goroutines; taken++ {
			full := len(w.records.open) > wire.BlockSize-300
			if full {
				blocks++
			}
			if journal.AfterStore = nil; taken < 20 || full || taken%500 == 499 {
				journal.AfterStore = look
			}
			testenv.OK(t, addGoroutine(w, taken))
			if n := len(w.records.open); n > wire.BlockSize {
				t.Fatalf("a block of %d bytes", n)
			}
			testenv.OK(t, w.WriteRecords(&tachyon.Records{Progress: &tachyon.Progress{Duration: time.Duration(taken + 1)}}))
			if taken%1000 == 999 {
				taken++
				testenv.OK(t, w.records.seal()) // as a sync does
				taken--
			}
		}
		journal.AfterStore = look
		err := w.Close()
		journal.AfterStore = nil
		testenv.OK(t, err)
		if instants < 60 || blocks < 3 {
			t.Errorf("%d instants, %d full blocks", instants, blocks)
		}
		n, _ := goroutinesIn(t, path)
		testenv.Same(t, "goroutines", n, goroutines)
	}
}

// If the disk is full when the journal has to grow, the file still gets all records.
func TestRecordsOnFullDisk(t *testing.T) {
	w, path := createRecords(t, Options{Uncompressed: true})
	full := errors.New("the disk is full")
	defer failReserve(full, func(int64) bool { return true })()
	n, err := 0, error(nil)
	for ; err == nil && n < 1_000_000; n++ {
		err = addGoroutine(w, n)
	}
	testenv.Is(t, "the disk is full", err, full)
	for range 1000 { // such as at the end of a session
		testenv.OK(t, addGoroutine(w, n))
		n++
	}
	testenv.Is(t, "Close", w.Close(), full)
	got, _ := goroutinesIn(t, path)
	testenv.Same(t, "goroutines", got, n)
}

// A truncated journal costs what is in it, not the program: neither a batch of samples nor records
// end it by a memory fault.
func TestTruncatedJournal(t *testing.T) {
	write := func(w *Writer) error {
		return testenv.Err(w.WriteBatch([]tachyon.Sample{{Thread: 1, Stack: []uint32{0}}}))
	}
	for name, use := range map[string]func(*Writer) error{"samples": write, "records": func(w *Writer) error { return addGoroutine(w, 0) }} {
		w, path := createRecords(t, Options{})
		w.Intern(tachyon.Frame{Func: "f"})
		testenv.OK(t, errors.Join(write(w), w.AddMetadata("session", tachyon.Session{})))
		for i := range goroutines {
			testenv.OK(t, addGoroutine(w, i))
		}
		testenv.OK(t, os.Truncate(path+journal.Suffix, 0))
		testenv.Is(t, name, use(w), errTruncated)
		testenv.Is(t, name+", then a sample", write(w), errTruncated)
		testenv.Is(t, name+": Close", w.Close(), errTruncated)
		metadata(t, path)
	}
}

// A file has the latest state of each object before it is finished, as after a kill, and afterwards.
func TestObjectsKept(t *testing.T) {
	w, path := createRecords(t, Options{Start: 1, Interval: 1000})
	first := []tachyon.Object{{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0xc000123456}, {Number: 3, Kind: tachyon.ObjectChannel, Capacity: -1}}
	then := []tachyon.Object{
		{Number: 2, Kind: tachyon.ObjectCond, Static: 0x5000, Symbol: "main.x", Offset: 8},
		{Number: 1, Kind: tachyon.ObjectRWMutex, Addr: 0xc000123456},
		{Number: 4, Kind: tachyon.ObjectSelect, Members: []int32{3, 5}},
	}
	want := []tachyon.Object{then[1], then[0], first[1], then[2]}
	for _, list := range [][]tachyon.Object{first, then} {
		testenv.OK(t, w.WriteRecords(&tachyon.Records{Objects: list}))
	}
	for range 2 {
		if got := metadata(t, path).Objects; !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want\n%+v", got, want)
		}
		testenv.OK(t, w.Close())
	}
}
