package writer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

var errDisk = errors.New("no space left")

// A disk is a file in memory with a limited size. A write beyond the limit writes the bytes
// that fit and returns an error. In addition, a write with a given number can fail.
type disk struct {
	b      []byte
	off    int
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
	if d.size > 0 && d.off+len(p) > d.size {
		p, err = p[:max(0, d.size-d.off)], errDisk
	}
	if end := d.off + len(p); end > len(d.b) {
		d.b = append(d.b, make([]byte, end-len(d.b))...)
	}
	d.off += copy(d.b[d.off:], p)
	return len(p), err
}

func (d *disk) Seek(off int64, whence int) (int64, error) {
	if whence != io.SeekStart {
		return 0, fmt.Errorf("whence %d", whence)
	}
	d.off = int(off)
	return off, nil
}

func (d *disk) Truncate(n int64) error {
	d.b = d.b[:n]
	return nil
}

// many writes a workload whose records fill several buffers. It returns the number of
// accepted samples and the first error.
func many(t *testing.T, w *Writer) (n int, first error) {
	t.Helper()
	var ids []uint32
	for i := range 300 {
		ids = append(ids, w.Intern(tachyon.Frame{File: fmt.Sprintf("file%d.go", i), Func: fmt.Sprintf("f%d", i), Line: int32(i)}))
	}
	for i := range 60_000 {
		s := tachyon.Sample{Thread: uint64(i % 7), Time: uint64(i) * 1000, Status: tachyon.Status(i & 3), Stack: ids[i*i*7919%200:][:i%50]}
		if err := w.Write(&s); err != nil {
			if first == nil {
				first = err
			} else if !errors.Is(err, first) {
				t.Fatalf("the first error was %v, a later one is %v", first, err)
			}
		} else if first != nil {
			t.Fatal("a sample was accepted after an error")
		} else {
			n++
		}
	}
	return n, first
}

func sameTold(a, b told) bool {
	return a.Time == b.Time && a.Status == b.Status && slices.Equal(a.Stack, b.Stack)
}

// If the disk becomes full, only the samples that do not fit are lost. Close finishes the
// file with the earlier samples and returns the error.
func TestDiskFull(t *testing.T) {
	for _, uncompressed := range []bool{false, true} {
		whole := new(disk)
		w, err := New(whole, Options{Uncompressed: uncompressed})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := many(t, w); n != 60_000 || err != nil {
			t.Fatal(n, err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		all := map[threadID][]told{}
		decode(t, whole.b).byThread(all)
		tables := len(whole.b) - int(decode(t, whole.b).header.StringOffset)
		most := uint64(0)
		for size := 70; size < len(whole.b); size += len(whole.b) / 9 {
			d := &disk{size: size}
			w, err := New(d, Options{Uncompressed: uncompressed})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := many(t, w); err != nil && !errors.Is(err, errDisk) {
				t.Fatal(err)
			}
			err = w.Close()
			if !errors.Is(err, errDisk) {
				t.Fatalf("%d of %d bytes: Close says %v", size, len(whole.b), err)
			}
			if again := w.Close(); again != err {
				t.Fatalf("Close says %v, then %v", err, again)
			}
			if strings.Contains(err.Error(), "the file was finished") != (d.b[0] != 0) {
				t.Fatalf("%d bytes: %v, but the header starts %x", size, err, d.b[:4])
			}
			if d.b[0] == 0 {
				if size > tachyon.HeaderSize+len(wire.EndRegion(tachyon.CompressionZstd, tachyon.HeaderSize, false))+tables {
					t.Errorf("%d bytes: no file though the tables of %d bytes fit", size, tables)
				}
				continue
			}
			got := decode(t, d.b)
			most = max(most, got.header.Samples)
			some := map[threadID][]told{}
			got.byThread(some)
			for k, have := range some {
				for i := range have {
					if !sameTold(all[k][i], have[i]) {
						t.Fatalf("%d bytes, thread %v: sample %d is %v, want %v", size, k, i, have[i], all[k][i])
					}
				}
			}
		}
		if most < 40_000 {
			t.Errorf("at most %d samples were saved", most)
		}
	}
}

// Each write in turn fails once. The writer does not panic, Close returns the error, and the
// file is complete or has no header.
func TestEveryWriteFails(t *testing.T) {
	count := new(disk)
	w, err := New(count, Options{})
	if err != nil {
		t.Fatal(err)
	}
	many(t, w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for fail := 2; fail <= count.writes; fail++ {
		d := &disk{fail: fail}
		w, err := New(d, Options{})
		if err != nil {
			t.Fatal(err)
		}
		many(t, w)
		if err := w.Close(); !errors.Is(err, errDisk) {
			t.Fatalf("write %d of %d failed, Close says %v", fail, count.writes, err)
		}
		decode(t, d.b)
	}
	if _, err := New(&disk{fail: 1}, Options{}); !errors.Is(err, errDisk) {
		t.Fatalf("the header's place cannot be written: %v", err)
	}
}

// New refuses a file that cannot seek.
func TestNotSeekable(t *testing.T) {
	r, p, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer p.Close()
	if _, err := New(p, Options{}); err == nil || !strings.Contains(err.Error(), "seekable") {
		t.Fatal(err)
	}
}

func TestCreateFails(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "no", "x.tach"), dir, ""} {
		if _, err := Create(path, Options{}); err == nil {
			t.Errorf("Create(%q) succeeds", path)
		}
	}
}

func TestOptionsRefused(t *testing.T) {
	nan := tachyon.Statistics{Rate: 0}
	nan.Duration = nan.Rate / nan.Rate
	for _, o := range []Options{
		{Layout: 3},
		{Layout: tachyon.CPython315, CPython: &CPythonInfo{Config: 6}},
		{Layout: tachyon.CPython315, CPython: &CPythonInfo{Stats: &nan}},
	} {
		if _, err := New(new(disk), o); err == nil {
			t.Errorf("New accepts %+v", o)
		}
	}
}

// Write refuses a sample with an unknown frame id and accepts the next sample.
func TestFrameOutOfRange(t *testing.T) {
	d := new(disk)
	w, err := New(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	id := w.Intern(tachyon.Frame{Func: "f"})
	if err := w.Write(&tachyon.Sample{Thread: 1, Stack: []uint32{id, id + 1}}); err == nil {
		t.Error("frame id 1 of a table with 1 frame is accepted")
	}
	if err := w.Write(&tachyon.Sample{Thread: 1, Stack: []uint32{1 << 31}}); err == nil {
		t.Error("frame id 2^31 of a table with 1 frame is accepted")
	}
	if err := w.Write(&tachyon.Sample{Thread: 1, Stack: []uint32{id}}); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := decode(t, d.b); got.header.Samples != 1 {
		t.Errorf("%d samples", got.header.Samples)
	}
}

// WriteBatch writes the samples before the one with an unknown frame id.
func TestBatchWithFrameOutOfRange(t *testing.T) {
	d := new(disk)
	w, err := New(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	id := w.Intern(tachyon.Frame{Func: "f"})
	good, bad := tachyon.Sample{Thread: 1, Stack: []uint32{id}}, tachyon.Sample{Thread: 1, Stack: []uint32{id + 1}}
	if n, err := w.WriteBatch([]tachyon.Sample{good, good, bad, good}); n != 2 || err == nil {
		t.Errorf("%d samples of a batch are accepted, error %v", n, err)
	}
	if n, err := w.WriteBatch([]tachyon.Sample{good}); n != 1 || err != nil {
		t.Errorf("%d samples, %v", n, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := decode(t, d.b); got.header.Samples != 3 {
		t.Errorf("%d samples", got.header.Samples)
	}
}

func second(_ int, err error) error { return err }

// The methods of a closed writer return ErrClosed.
func TestClosed(t *testing.T) {
	w, err := New(new(disk), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"Write":       w.Write(&tachyon.Sample{}),
		"WriteBatch":  second(w.WriteBatch([]tachyon.Sample{{}})),
		"WriteFrames": w.WriteFrames(&tachyon.Sample{}, []tachyon.Frame{{}}),
		"AddMetadata": w.AddMetadata("x", 1),
		"Forget":      w.Forget(1, 0),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	w.Intern(tachyon.Frame{Func: "f"}) // has no effect, but must not panic
}

// A file accepts as many samples as its header can count. Each further sample gives
// ErrTooManySamples, and Close finishes the file.
func TestTooManySamples(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	create := map[string]func() (*Writer, error){
		"Create": func() (*Writer, error) { return Create(path, Options{}) },
		"New": func() (*Writer, error) {
			f, err := os.Create(path)
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { f.Close() })
			return New(f, Options{})
		},
	}
	for name, create := range create {
		w, err := create()
		if err != nil {
			t.Fatal(err)
		}
		w.limit = 4
		stack := []uint32{w.Intern(tachyon.Frame{Func: "f"})}
		for i := range 6 {
			err = w.Write(&tachyon.Sample{Thread: 1, Time: uint64(i), Stack: stack})
			if i < 4 && err != nil || i >= 4 && !errors.Is(err, ErrTooManySamples) {
				t.Errorf("%s: sample %d: %v", name, i, err)
			}
		}
		if err := w.AddMetadata("late", 1); err != nil {
			t.Errorf("%s: metadata: %v", name, err)
		}
		if err := w.Close(); err != nil {
			t.Errorf("%s: Close: %v", name, err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := decode(t, b); d.header.Samples != 4 || !strings.Contains(d.strings[d.used], "late") {
			t.Errorf("%s: %d samples, strings %q", name, d.header.Samples, d.strings)
		}
	}
}
