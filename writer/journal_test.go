//go:build darwin || dragonfly || freebsd || linux || netbsd

package writer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/wire"
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
		testenv.Must(feed(w, 0, several))
		testenv.OK(t, w.Close())
		writes := f.writes
		keeps(t, path, several, true)
		errnos := []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO}
		for i := range 2 * writes {
			fail, once, errno := 1+i/2, i%2 == 0, errnos[i%3]
			if once == uncompressed && testenv.Times(1, 2) == 1 {
				continue // by day each of both ways once
			}
			w, f := createFaulty(t, path, Options{Uncompressed: uncompressed})
			f.err, f.fail, f.once = errno, fail, once
			taken, err := feed(w, 0, several)
			testenv.StopIf(t, err != nil && !errors.Is(err, errno), "%v", err)
			testenv.Is(t, fmt.Sprintf("write %d of %d fails: Close", fail, writes), w.Close(), errno)
			n, finished := holds(t, path)
			testenv.FailIf(t, n != taken, "write %d of %d fails (once: %v): %d samples were accepted, the file has %d", fail, writes, once, taken, n)
			if !finished {
				testenv.OK(t, testenv.Err(recovery.Finish(path)))
				keeps(t, path, taken, true)
			}
			testenv.Is(t, "the journal", testenv.Err(os.Stat(path+journal.Suffix)), os.ErrNotExist)
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
				testenv.Same(t, path, testenv.Must(os.Stat(path)).Mode(), 0o600)
			}
			for _, path := range []string{link, target} {
				keeps(t, path, n, false)
			}
			abandon(w)
			testenv.OK(t, testenv.Err(recovery.Finish(link)))
			keeps(t, target, n, true)
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
		w := testenv.Must(Create(path, Options{Uncompressed: uncompressed}))
		for _, f := range numberedFrames[100:] { // a hundred new frames are enough
			w.Intern(f)
		}
		taken, instants, flushes := 0, 0, 0
		look := func() {
			instants++
			n, _ := holds(t, path)
			testenv.StopIf(t, n != taken && n != taken+1, "%d samples were accepted, a kill leaves %d", taken, n)
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
			testenv.OK(t, testenv.Err(feed(w, taken, taken+1)))
			if taken++; journal.AfterStore != nil {
				look()
			}
		}
		journal.AfterStore = look
		err := errors.Join(w.Forget(5, 0), w.Close()) // Close writes the repeats of all threads
		journal.AfterStore = nil
		testenv.OK(t, err)
		testenv.FailIf(t, instants < 100 || flushes == 0, "%d instants, %d flushes", instants, flushes)
		keeps(t, path, several, true)
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
			if c.before != nil {
				testenv.OK(t, c.before(path))
			}
			w := testenv.Must(Create(path, Options{Sync: time.Second}))
			n := testenv.Must(feed(w, 0, 100))
			if c.during != nil {
				testenv.OK(t, c.during(path))
			}
			// If the file was removed or replaced, Discard returns the same error as Close.
			for range 2 {
				testenv.Same(t, "an error of Discard", w.Discard() != nil, c.during != nil)
				testenv.Same(t, "an error of Write", w.Write(&tachyon.Sample{}) != nil, true)
			}
			testenv.SameList(t, "is left", testenv.Must(fs.Glob(os.DirFS(dir), "*")), c.left)
			if name == "replaced" {
				testenv.Same(t, "the other file", string(testenv.Must(os.ReadFile(path))), "another's")
			}
			if name == "a file" {
				keeps(t, path, n, true)
			}
		})
	}
}

// Create overwrites what can hold nothing: a finished profile, an empty file, and an unfinished profile whose journal is missing. It does
// not change a file that is no profile. Both are so behind a link, and no journal is left beside it.
func TestFound(t *testing.T) {
	whole := finished(t)
	for name, c := range map[string]struct {
		found []byte
		want  error
	}{
		"text":                 {[]byte("precious, and longer than the header of a profile is; nobody has a copy of it."), ErrNotProfile},
		"a few bytes":          {[]byte{1}, ErrNotProfile},
		"a cut header":         {whole[:tachyon.HeaderSize-1], ErrNotProfile},
		"a disk's image":       {make([]byte, 4096), ErrNotProfile},
		"one zero byte":        {[]byte{0}, ErrNotProfile},
		"another's header":     {append([]byte("TACH"), make([]byte, 4096)...)[1:], ErrNotProfile},
		"finished":             {whole, nil},
		"empty":                {nil, nil},
		"without journal":      {append(make([]byte, tachyon.HeaderSize), whole[tachyon.HeaderSize:]...), nil},
		"empty, no journal":    {make([]byte, tachyon.HeaderSize), nil},
		"of the other layout":  {append([]byte{0x48, 0x43, 0x41, 0x54, 1}, make([]byte, 100)...), nil},
		"of a big-endian host": {append([]byte("TACH\x00\x00\x00\x01"), make([]byte, 100)...), nil},
	} {
		for _, link := range []bool{false, true} {
			dir := t.TempDir()
			path := filepath.Join(dir, "x.tach")
			file := path
			if link {
				file = filepath.Join(dir, "precious")
				testenv.OK(t, os.Symlink("precious", path))
			}
			testenv.OK(t, os.WriteFile(file, c.found, 0o600))
			w, err := Create(path, Options{})
			testenv.Is(t, fmt.Sprintf("%s, link %v", name, link), err, c.want)
			if err != nil {
				testenv.Same(t, name, string(testenv.Must(os.ReadFile(file))), string(c.found))
			} else {
				testenv.Same(t, name+" is kept", w.Kept(), "")
				testenv.OK(t, w.Close())
			}
			testenv.SameList(t, name, testenv.Must(fs.Glob(os.DirFS(dir), "*")), map[bool][]string{false: {"x.tach"}, true: {"precious", "x.tach"}}[link])
		}
	}
}

// A program that is killed and starts again does not overwrite its unfinished profile, whichever way it names the file, and takes
// nothing from a writer that runs.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "x.tach"), filepath.Join(dir, "link.tach")
	testenv.OK(t, errors.Join(os.Symlink("x.tach", link), os.WriteFile(filepath.Join(dir, "x.7.tach"), finished(t), 0o600)))
	for run := range 5 {
		w := testenv.Must(Create([]string{path, link}[run%2], Options{}))
		testenv.OK(t, testenv.Err(feed(w, 0, 1000+run)))
		want := ""
		if run > 0 {
			want = fmt.Sprintf("%s/x.%d.tach", dir, run+7)
			keeps(t, want, 1000+run-1, false)
		}
		testenv.Same(t, run, w.Kept(), want)
		testenv.Is(t, "beside a writer that runs", testenv.Err(Create(path, Options{})), ErrBusy)
		abandon(w)
	}
}

// A kill while an unfinished profile gets its new name loses nothing: the journal has both names then.
func TestKilledInKeep(t *testing.T) {
	for _, c := range map[string]struct {
		done func(path, to string) error // what was done before the kill
		left string
	}{
		"the journal has both names": {func(path, to string) error { return os.Link(path+journal.Suffix, to+journal.Suffix) }, "x.2.tach"},
		"the profile was moved": {func(path, to string) error {
			return errors.Join(os.Link(path+journal.Suffix, to+journal.Suffix), os.Rename(path, to))
		}, "x.1.tach"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "x.tach")
		w := testenv.Must(Create(path, Options{}))
		testenv.OK(t, testenv.Err(feed(w, 0, 1000)))
		abandon(w)
		testenv.OK(t, c.done(path, filepath.Join(dir, "x.1.tach")))
		testenv.OK(t, testenv.Must(Create(path, Options{})).Close())
		keeps(t, filepath.Join(dir, c.left), 1000, false)
	}
}

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
		want := aGoroutine(i)
		testenv.FailIf(t, !reflect.DeepEqual(g, want), "goroutine %d is %+v, want %+v", i, g, want)
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
			i := int(progress)
			testenv.FailIf(t, n != taken && n != taken+1 || i != taken && i != taken+1, "%d goroutines were accepted, a kill leaves %d and the progress %d", taken, n, i)
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
			testenv.FailIf(t, len(w.records.open) > wire.BlockSize, "a block of %d bytes", len(w.records.open))
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
		testenv.FailIf(t, instants < 60 || blocks < 3, "%d instants, %d full blocks", instants, blocks)
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
		got := metadata(t, path).Objects
		testenv.FailIf(t, !reflect.DeepEqual(got, want), "%+v, want\n%+v", got, want)
		testenv.OK(t, w.Close())
	}
}
