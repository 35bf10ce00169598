package writer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// A writer leaves no goroutines, also none of zstd.
func TestMain(m *testing.M) { testenv.MainWithoutLeaks(m) }

var errDisk = errors.New("no space left")

// A disk is a file in memory with a limited size. A write beyond the limit writes the bytes
// that fit and returns an error. In addition, a write with a given number can fail.
type disk struct {
	testenv.File
	size   int // 0: no limit
	fail   int // which write fails, counting from 1; 0: none
	writes int
}

func (d *disk) Write(p []byte) (int, error) {
	d.writes++
	var err error
	if d.writes == d.fail {
		p, err = p[:len(p)/2], errDisk
	}
	if at := int(testenv.Must(d.Seek(0, io.SeekCurrent))); d.size > 0 && at+len(p) > d.size {
		p, err = p[:max(0, d.size-at)], errDisk
	}
	return testenv.Must(d.File.Write(p)), err
}

func (d *disk) Truncate(n int64) error {
	d.Bytes = d.Bytes[:n]
	return nil
}

// finished returns a finished profile.
func finished(t testing.TB) []byte {
	t.Helper()
	d := &disk{}
	w := testenv.Must(New(d, Options{}))
	testenv.OK(t, testenv.Err(feed(w, 0, 10)))
	testenv.OK(t, w.Close())
	return d.Bytes
}

// read opens the file in memory and checks its checksum.
func (d *disk) read(t testing.TB) *reader.Reader {
	t.Helper()
	r := testenv.Must(reader.New(bytes.NewReader(d.Bytes)))
	testenv.OK(t, testenv.Err(r.VerifyChecksum()))
	return r
}

// numbered returns the nth sample of a workload of 7 threads. The stacks of some change, those of
// others repeat. The stacks are deep, so that a few thousand samples fill a buffer.
func numbered(n int, frames []tachyon.Frame) (tachyon.Sample, []tachyon.Frame) {
	thread := n % 7
	depth, from := 200-n/7%150, n/7*7919%800
	if thread > 4 {
		depth, from = 20, thread
	}
	return tachyon.Sample{Thread: uint64(thread + 1), Interpreter: uint32(thread & 1), Time: uint64(n) * 100, Status: tachyon.Status(n & 3)}, frames[from : from+depth]
}

var numberedFrames = func() (list []tachyon.Frame) {
	for i := range 1000 {
		list = append(list, tachyon.Frame{File: fmt.Sprintf("file%d.go", i), Func: fmt.Sprintf("f%d", i), Line: int32(i)})
	}
	return list
}()

// fed are the numbers plus 1 of the frames of the workload that feed has interned.
var fed struct {
	w     *Writer
	ids   [1000]uint32
	stack []uint32
}

// feed writes the samples from first to n-1 of the workload, up to the first error. It
// returns the number of samples that the file has now.
func feed(w *Writer, first, n int) (int, error) {
	if fed.w != w {
		fed.w, fed.ids = w, [1000]uint32{}
	}
	for i := first; i < n; i++ {
		s, stack := numbered(i, numberedFrames)
		fed.stack = fed.stack[:0]
		for _, f := range stack {
			if fed.ids[f.Line] == 0 {
				fed.ids[f.Line] = w.Intern(f) + 1
			}
			fed.stack = append(fed.stack, fed.ids[f.Line]-1)
		}
		s.Stack = fed.stack
		if err := w.Write(&s); err != nil {
			return i, err
		}
	}
	return n, nil
}

// perThread checks that a file has the first samples of each thread of the workload, and returns how
// many of each.
func perThread(t testing.TB, r *reader.Reader) map[uint64]int {
	t.Helper()
	seen, frames := map[uint64]int{}, r.Frames()
	for _, f := range frames {
		testenv.Same(t, "frame", f, numberedFrames[f.Line]) // so that the lines of a stack tell its frames
	}
	for s := range testenv.All(t, r.Samples()) {
		want, stack := numbered(seen[s.Thread]*7+int(s.Thread)-1, numberedFrames)
		seen[s.Thread]++
		if s.Time != want.Time || s.Status != want.Status || s.Interpreter != want.Interpreter ||
			!slices.EqualFunc(s.Stack, stack, func(id uint32, f tachyon.Frame) bool { return frames[id].Line == f.Line }) {
			t.Fatalf("sample %d of thread %d is %+v, want %+v", seen[s.Thread], s.Thread, *s, want)
		}
	}
	return seen
}

// holds checks that a file has the first n samples of the workload and returns n.
func holds(t testing.TB, path string) (n int, finished bool) {
	t.Helper()
	r := testenv.Must(reader.Open(path))
	defer r.Close()
	testenv.OK(t, testenv.Err(r.VerifyChecksum()))
	seen := perThread(t, r)
	for _, count := range seen {
		n += count
	}
	for k := range 7 {
		testenv.Same(t, fmt.Sprint("samples of thread ", k+1), seen[uint64(k+1)], (n-k+6)/7)
	}
	return n, !r.Unfinished()
}

// keeps fails the test unless a file has the first n samples of the workload, and is finished or not.
func keeps(t testing.TB, path string, n int, finished bool) {
	t.Helper()
	got, is := holds(t, path)
	testenv.Same(t, path, fmt.Sprint(got, is), fmt.Sprint(n, finished))
}

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
		n, first, closed := tryDisk(t, whole, o)
		testenv.Prints(t, "a whole file", fmt.Sprint(several, " <nil> <nil>"), n, first, closed)
		tables := len(whole.Bytes) - int(whole.read(t).Header().StringOffset)
		most := uint64(0)
		for size := 70; size < len(whole.Bytes); size += len(whole.Bytes) / 9 {
			d := &disk{size: size}
			_, first, err := tryDisk(t, d, o)
			testenv.FailIf(t, first != nil && !errors.Is(first, errDisk) || !errors.Is(err, errDisk), "%d of %d bytes: %v, Close says %v", size, len(whole.Bytes), first, err)
			testenv.FailIf(t, strings.Contains(err.Error(), "the file was finished") != (d.Bytes[0] != 0), "%d bytes: %v, but the header starts %x", size, err, d.Bytes[:4])
			if d.Bytes[0] == 0 {
				least := tachyon.HeaderSize + len(wire.EndRegion(tachyon.CompressionZstd, tachyon.HeaderSize, false)) + tables
				testenv.FailIf(t, size > least, "%d bytes: no file though the tables of %d bytes fit", size, tables)
				continue
			}
			got := d.read(t)
			perThread(t, got)
			most = max(most, got.Header().Samples)
		}
		testenv.FailIf(t, most < several/3, "at most %d samples were saved", most)
	}
}

// New and Create refuse a file that cannot seek, paths where no file can be, and wrong options.
func TestRefused(t *testing.T) {
	r, p, err := os.Pipe()
	testenv.OK(t, err)
	defer r.Close()
	defer p.Close()
	testenv.Fails(t, "a pipe", testenv.Err(New(p, Options{})), "seekable")
	testenv.Is(t, "a full disk", testenv.Err(New(&disk{fail: 1}, Options{})), errDisk)
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "no", "x.tach"), dir, ""} {
		testenv.Same(t, "an error of "+path, testenv.Err(Create(path, Options{})) != nil, true)
	}
	for _, o := range []Options{
		{Layout: 3},
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
	n, err := w.WriteBatch([]tachyon.Sample{good, good, bad, good})
	testenv.FailIf(t, n != 2 || err == nil, "%d samples of a batch are accepted, error %v", n, err)
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
			testenv.OK(t, w.Warning())
			feed(w, i, i+1)
		}
		testenv.Same(t, fmt.Sprintf("%v: Warning", layout), w.Warning(), want)
		testenv.OK(t, w.Close())
		testenv.Same(t, fmt.Sprintf("%v: Warning after Close", layout), w.Warning(), want)
	}
}

// Forget writes a thread's repeats and drops its state. The memory is that of the next new thread, also if its id is 0.
func TestForget(t *testing.T) {
	for _, beside := range []bool{false, true} { // another thread, which stays
		d := new(disk)
		w := testenv.Must(New(d, Options{}))
		f, g := w.Intern(tachyon.Frame{Func: "f"}), w.Intern(tachyon.Frame{Func: "g"})
		stacks := [][]uint32{{f}, {f}, {g, f}, {g, f}}
		const n, stays = 300, 1000
		for k := range n {
			at, id := uint64(1000*k), uint64(n-1-k)
			if beside {
				testenv.OK(t, w.Write(&tachyon.Sample{Thread: stays, Time: at, Stack: stacks[0]}))
			}
			for i, stack := range stacks {
				testenv.OK(t, w.Write(&tachyon.Sample{Thread: id, Time: at + uint64(i), Stack: stack}))
			}
			testenv.OK(t, errors.Join(w.Forget(id, 0), w.Forget(stays+1, 0)))
		}
		testenv.FailIf(t, len(w.threads.byKey) > 1 || len(w.threads.list) > 2, "%d threads, the memory of %d after all but one have ended", len(w.threads.byKey), len(w.threads.list))
		testenv.OK(t, w.Close())
		i := 0
		for s, err := range d.read(t).Samples() {
			if err == nil && s.Thread == stays {
				continue
			}
			testenv.StopIf(t, err != nil || s.Thread != uint64(n-1-i/4) || s.Time != uint64(1000*(i/4)+i%4) || !slices.Equal(s.Stack, stacks[i%4]), "sample %d is %+v, %v", i, s, err)
			i++
		}
		testenv.FailIf(t, i != 4*n, "%d samples", i)
	}
}
