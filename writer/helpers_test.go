package writer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
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
	if got, is := holds(t, path); got != n || is != finished {
		t.Errorf("%s: %d samples, want %d; finished: %v", path, got, n, is)
	}
}
