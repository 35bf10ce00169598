package writer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// several is a number of samples that fills two buffers.
const several = 5000

// tryDisk writes the workload to a disk. It returns the number of accepted samples, the first error,
// which all further samples get too, and that of Close.
func tryDisk(t *testing.T, d *disk, o Options) (n int, first, closed error) {
	t.Helper()
	w := testenv.Must(New(d, o))
	if n, first = feed(w, 0, several); first != nil {
		testenv.Is(t, "a later sample", w.Write(&tachyon.Sample{}), first)
	}
	closed = w.Close()
	testenv.Same(t, "Close again", w.Close(), closed)
	return n, first, closed
}

// If the disk becomes full, only the samples that do not fit are lost. Close finishes the
// file with the earlier samples and returns the error.
func TestDiskFull(t *testing.T) {
	for _, uncompressed := range []bool{false, true} {
		o := Options{Uncompressed: uncompressed}
		whole := new(disk)
		if n, first, err := tryDisk(t, whole, o); n != several || first != nil || err != nil {
			t.Fatal(n, first, err)
		}
		tables := len(whole.Bytes) - int(whole.read(t).Header().StringOffset)
		most := uint64(0)
		for size := 70; size < len(whole.Bytes); size += len(whole.Bytes) / 9 {
			d := &disk{size: size}
			_, first, err := tryDisk(t, d, o)
			if first != nil && !errors.Is(first, errDisk) || !errors.Is(err, errDisk) {
				t.Fatalf("%d of %d bytes: %v, Close says %v", size, len(whole.Bytes), first, err)
			}
			if strings.Contains(err.Error(), "the file was finished") != (d.Bytes[0] != 0) {
				t.Fatalf("%d bytes: %v, but the header starts %x", size, err, d.Bytes[:4])
			}
			if d.Bytes[0] == 0 {
				if size > tachyon.HeaderSize+len(wire.EndRegion(tachyon.CompressionZstd, tachyon.HeaderSize, false))+tables {
					t.Errorf("%d bytes: no file though the tables of %d bytes fit", size, tables)
				}
				continue
			}
			got := d.read(t)
			perThread(t, got)
			most = max(most, got.Header().Samples)
		}
		if most < several/3 {
			t.Errorf("at most %d samples were saved", most)
		}
	}
}

// Each write in turn fails once. The writer does not panic, Close returns the error, and the
// file is complete.
func TestEveryWriteFails(t *testing.T) {
	count := new(disk)
	_, _, err := tryDisk(t, count, Options{})
	testenv.OK(t, err)
	for fail := 2; fail <= count.writes; fail++ {
		d := &disk{fail: fail}
		if _, _, err := tryDisk(t, d, Options{}); !errors.Is(err, errDisk) {
			t.Fatalf("write %d of %d failed, Close says %v", fail, count.writes, err)
		}
		perThread(t, d.read(t))
	}
	testenv.Is(t, "the header's place cannot be written", testenv.Err(New(&disk{fail: 1}, Options{})), errDisk)
}

// New and Create refuse a file that cannot seek, paths where no file can be, and wrong options.
func TestRefused(t *testing.T) {
	r, p, err := os.Pipe()
	testenv.OK(t, err)
	defer r.Close()
	defer p.Close()
	testenv.Fails(t, "a pipe", testenv.Err(New(p, Options{})), "seekable")
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "no", "x.tach"), dir, ""} {
		testenv.Same(t, "an error of "+path, testenv.Err(Create(path, Options{})) != nil, true)
	}
	nan := tachyon.Statistics{Rate: 0}
	nan.Duration = nan.Rate / nan.Rate
	for _, o := range []Options{
		{Layout: 3},
		{Layout: tachyon.CPython315, CPython: &CPythonInfo{Config: 6}},
		{Layout: tachyon.CPython315, CPython: &CPythonInfo{Stats: &nan}},
	} {
		testenv.Fails(t, fmt.Sprintf("%+v", o), testenv.Err(New(new(disk), o)), "tachyon writer: ")
	}
}

// Write refuses a sample with an unknown frame id and accepts the next sample. WriteBatch writes
// the samples before the one with an unknown frame id.
func TestFrameOutOfRange(t *testing.T) {
	d := new(disk)
	w := testenv.Must(New(d, Options{}))
	id := w.Intern(tachyon.Frame{Func: "f"})
	for _, stack := range [][]uint32{{id, id + 1}, {1 << 31}} {
		testenv.Fails(t, "an unknown frame", w.Write(&tachyon.Sample{Thread: 1, Stack: stack}), "but there are 1 frames")
	}
	good, bad := tachyon.Sample{Thread: 1, Stack: []uint32{id}}, tachyon.Sample{Thread: 1, Stack: []uint32{id + 1}}
	testenv.OK(t, w.Write(&good))
	if n, err := w.WriteBatch([]tachyon.Sample{good, good, bad, good}); n != 2 || err == nil {
		t.Errorf("%d samples of a batch are accepted, error %v", n, err)
	}
	testenv.Same(t, "accepted", testenv.Must(w.WriteBatch([]tachyon.Sample{good})), 1)
	testenv.OK(t, w.Close())
	testenv.Same(t, "samples", d.read(t).Header().Samples, 4)
}

// The methods of a closed writer return ErrClosed.
func TestClosed(t *testing.T) {
	w := testenv.Must(New(new(disk), Options{}))
	testenv.OK(t, w.Close())
	for name, err := range map[string]error{
		"Write":        w.Write(&tachyon.Sample{}),
		"WriteBatch":   testenv.Err(w.WriteBatch([]tachyon.Sample{{}})),
		"WriteFrames":  w.WriteFrames(&tachyon.Sample{}, []tachyon.Frame{{}}),
		"WriteRecords": w.WriteRecords(&tachyon.Records{}),
		"AddMetadata":  w.AddMetadata("x", 1),
		"Provisional":  w.Provisional("x", 1),
		"Forget":       w.Forget(1, 0),
	} {
		testenv.Is(t, name, err, ErrClosed)
	}
	testenv.OK(t, w.Close())
	w.Intern(tachyon.Frame{Func: "f"}) // has no effect, but must not panic
}

// A file accepts as many samples as its header can count. Each further sample gives
// ErrTooManySamples, and Close finishes the file.
func TestTooManySamples(t *testing.T) {
	d := new(disk)
	w := testenv.Must(New(d, Options{}))
	w.limit = 4
	testenv.OK(t, testenv.Err(feed(w, 0, 4)))
	for i := 4; i < 6; i++ {
		testenv.Is(t, i, testenv.Err(feed(w, i, i+1)), ErrTooManySamples)
	}
	testenv.OK(t, errors.Join(w.AddMetadata("late", 1), w.Close()))
	r := d.read(t)
	perThread(t, r)
	testenv.Same(t, "samples", r.Header().Samples, 4)
	testenv.Same(t, "metadata", r.MetadataObjects()[0], `{"gotach":"late","late":1}`)
}

// Warning returns ErrCPythonLimit if a CPython315 file is too large for CPython.
func TestCPythonLimit(t *testing.T) {
	for layout, want := range map[tachyon.Layout]error{tachyon.CPython315: ErrCPythonLimit, tachyon.Document: nil} {
		w := testenv.Must(New(new(void), Options{Layout: layout}))
		w.out.raw = cpythonLimit - 100 // as after many buffers
		for i := 0; len(w.out.buf) <= 100; i++ {
			if err := w.Warning(); err != nil {
				t.Fatalf("%v with %d bytes in the buffer", err, len(w.out.buf))
			}
			feed(w, i, i+1)
		}
		testenv.Same(t, fmt.Sprintf("%v: Warning", layout), w.Warning(), want)
		testenv.OK(t, w.Close())
		testenv.Same(t, fmt.Sprintf("%v: Warning after Close", layout), w.Warning(), want)
	}
}

// Forget writes a thread's repeats and drops its state.
func TestForget(t *testing.T) {
	d := new(disk)
	w := testenv.Must(New(d, Options{}))
	f, g := w.Intern(tachyon.Frame{Func: "f"}), w.Intern(tachyon.Frame{Func: "g"})
	stacks := [][]uint32{{f}, {f}, {g, f}, {g, f}}
	const n = 300
	for k := range n {
		for i, stack := range stacks {
			testenv.OK(t, w.Write(&tachyon.Sample{Thread: uint64(k), Time: uint64(1000*k + i), Stack: stack}))
		}
		testenv.OK(t, errors.Join(w.Forget(uint64(k), 0), w.Forget(n+1, 0)))
	}
	if len(w.threads.byKey) > 0 || len(w.threads.pages) != 1 {
		t.Errorf("%d threads in %d pages after all have ended", len(w.threads.byKey), len(w.threads.pages))
	}
	testenv.OK(t, w.Close())
	r := d.read(t)
	if h := r.Header(); h.Threads != n || h.Samples != 4*n {
		t.Errorf("%d threads, %d samples", h.Threads, h.Samples)
	}
	i := 0
	for s, err := range r.Samples() {
		if err != nil || s.Thread != uint64(i/4) || s.Time != uint64(1000*(i/4)+i%4) || !slices.Equal(s.Stack, stacks[i%4]) {
			t.Fatalf("sample %d is %+v, %v", i, s, err)
		}
		i++
	}
}

// The thread that is prefetched is the one that comes lead steps later, also if other
// threads come in between or are dropped.
func TestFetchAhead(t *testing.T) {
	const n = 2 * manyPages * threadPage
	var s threadSet
	s.init(0)
	round := func(skip int) {
		t.Helper()
		for id := range n {
			if skip > 0 && id%skip == 0 {
				continue
			}
			testenv.Same(t, "thread", s.get(uint64(id), 0).id, uint64(id))
			a := s.last
			for range s.lead {
				a = a.next
			}
			if a != s.ahead || s.lead > maxLead {
				t.Fatalf("thread %d: not %d steps ahead", id, s.lead)
			}
		}
	}
	round(0)
	testenv.Same(t, "steps ahead of threads seen once", s.lead, 0)
	round(0)
	testenv.Same(t, "steps ahead of threads seen twice", s.lead, maxLead)
	round(7)
	for id := 0; id < n; id += 100 {
		s.drop(s.find(uint64(id), 0))
	}
	round(7)
	round(0)
}
