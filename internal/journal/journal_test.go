//go:build darwin || dragonfly || freebsd || linux || netbsd

package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

var head = Head{Layout: uint32(tachyon.Document), Start: 1_000_000, Interval: 1000}

func create(t *testing.T, path string) *Writer {
	t.Helper()
	return testenv.Must(Create(path, head))
}

func load(t *testing.T, path string) *State {
	t.Helper()
	return testenv.Must(Load(path))
}

func entry(i int) []byte {
	s := fmt.Sprintf("a string that is the %dth", i)
	return append(binary.AppendUvarint(nil, uint64(len(s))), s...)
}

// All entries can be loaded in their order at any time, also after the file has grown many
// times and after its writer has ended. Remove deletes the file.
func TestGrow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	j := create(t, path)
	var strings, frames []byte
	const n = 60_000
	for i := range n {
		strings = append(strings, entry(i)...)
		testenv.OK(t, j.String(entry(i)))
		frame := binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(i)), uint64(i)), 7)
		frames = append(frames, frame...)
		testenv.OK(t, j.Frame(frame))
	}
	if len(j.chunks) < 3 {
		t.Fatalf("the journal grew only to %d MB", len(j.chunks))
	}
	testenv.OK(t, errors.Join(j.Metadata([]byte(`{"gotach":"a","n":1}`), true), j.Metadata([]byte(`{"gotach":"b"}`), false), j.Metadata([]byte(`{"gotach":"a","n":2}`), true)))
	for _, closed := range []bool{false, true} {
		if closed {
			testenv.OK(t, j.Close())
		}
		s := load(t, path)
		if s.NStrings != n || s.NFrames != n || !bytes.Equal(s.Strings, strings) || !bytes.Equal(s.Frames, frames) {
			t.Errorf("%d strings, %d frames, or wrong ones", s.NStrings, s.NFrames)
		}
		testenv.Same(t, "metadata", fmt.Sprint(s.Metadata), `[{"gotach":"b"} {"gotach":"a","n":2}]`)
		if s.Layout != head.Layout || s.Start != head.Start || s.Interval != head.Interval || s.Point.Offset != tachyon.HeaderSize {
			t.Errorf("%+v, %+v", s.Head, s.Point)
		}
	}
	half, whole := load(t, path), n/2
	known := Known{NStrings: uint32(whole)}
	for range whole {
		_, size := cutString(half.Strings[known.Strings:])
		known.Strings += size
	}
	for known.Frames = len(frames) / 2; frames[known.Frames-1] != 7; known.Frames++ {
	}
	if s, err := LoadNew(path, known); err != nil || !bytes.Equal(s.Strings, strings[known.Strings:]) || !bytes.Equal(s.Frames, frames[known.Frames:]) || int(s.NStrings) != n-whole {
		t.Errorf("%d new strings, %v", s.NStrings, err)
	}
	j = create(t, path) // replaces a journal that is not in use
	testenv.Same(t, "strings of the new journal", load(t, path).NStrings, 0)
	testenv.OK(t, j.Remove())
	testenv.Is(t, "the journal after Remove", testenv.Err(os.Lstat(path+Suffix)), os.ErrNotExist)
}

// After any operation, pending repeats are in the journal exactly once: in a slot, in a
// larger slot, or in the buffer.
func TestSlots(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	j := create(t, path)
	defer j.Remove()
	record := func(n int, pairs ...byte) []byte {
		return append([]byte{9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, wire.Repeat, byte(n)}, pairs...)
	}
	want := func(what string, b []byte) {
		t.Helper()
		testenv.SameList(t, what, load(t, path).Records, b)
	}
	small := testenv.Must(j.Slot(32))
	if n := len(small.Data()); n != 32 || cap(small.Data()) != n {
		t.Errorf("a slot of 32 bytes has %d bytes", n)
	}
	j.Begin(&small, 9, 1)
	copy(small.Data(), []byte{5, 1, 6, 2})
	want("not used yet", []byte{})
	small.Used(2)
	want("one", record(1, 5, 1))
	small.Used(4)
	want("two", record(2, 5, 1, 6, 2))

	large := testenv.Must(j.Slot(64))
	copy(large.Data(), small.Data()[:4])
	large.Data()[4], large.Data()[5] = 7, 3
	j.Move(&small, &large, 4)
	want("moved", record(2, 5, 1, 6, 2))
	j.Release(small)
	large.Used(6)
	want("three", record(3, 5, 1, 6, 2, 7, 3))

	buf := append(j.Buffer(), record(3, 5, 1, 6, 2, 7, 3)...)
	j.Commit(len(buf), &large)
	want("in the buffer", record(3, 5, 1, 6, 2, 7, 3))
	j.Advance(Point{Offset: 1000, Samples: 3, Raw: uint64(len(buf))}, 0)
	want("in the file", []byte{})
	if p := load(t, path).Point; p.Offset != 1000 || p.Samples != 3 {
		t.Errorf("%+v", p)
	}
	j.Release(large)

	// Pages whose slots are all free are reused for any kind.
	chunks := len(j.chunks)
	for range 20 {
		var slots []Slot
		for range 50 {
			s := testenv.Must(j.Slot(16384))
			slots = append(slots, s)
		}
		for _, s := range slots {
			j.Release(s)
		}
		chunks = max(chunks, 3)
	}
	if len(j.chunks) > chunks {
		t.Errorf("the journal has %d MB after its slots were released, want at most %d", len(j.chunks), chunks)
	}
}

// Only one writer can use a journal, and a recovery cannot begin while it does.
func TestBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	j := create(t, path)
	testenv.Is(t, "Create", testenv.Err(Create(path, head)), ErrBusy)
	testenv.Is(t, "Lock", testenv.Err(Lock(path)), ErrBusy)
	held := func() bool {
		return testenv.Must(Held(path))
	}
	testenv.Same(t, "the journal of a writer is held", held(), true)
	load(t, path)
	testenv.OK(t, j.Close())
	testenv.Same(t, "the journal of a writer that has gone is held", held(), false)
	testenv.Is(t, "Held without a journal", testenv.Err(Held(path+"x")), os.ErrNotExist)
	f := testenv.Must(Lock(path))
	defer f.Close()
	testenv.Is(t, "Create during a recovery", testenv.Err(Create(path, head)), ErrBusy)
}

// Create does not change a link, directory or pipe with the journal's name.
func TestInTheWay(t *testing.T) {
	for name, put := range map[string]func(dir, path string) error{
		"link":          func(dir, path string) error { return os.Symlink("victim", path) },
		"dangling link": func(dir, path string) error { return os.Symlink("nothing", path) },
		"directory":     func(dir, path string) error { return os.Mkdir(path, 0o700) },
		"pipe":          func(dir, path string) error { return unix.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, victim := filepath.Join(dir, "x.tach"), filepath.Join(dir, "victim")
			testenv.OK(t, errors.Join(os.WriteFile(victim, []byte("precious"), 0o644), put(dir, path+Suffix)))
			before := testenv.Must(os.Lstat(path + Suffix))
			if _, err := Create(path, head); err == nil {
				t.Error("no error")
			}
			if name != "directory" {
				if _, err := Lock(path); err == nil && name != "pipe" {
					t.Error("Lock follows the link")
				}
			}
			testenv.Same(t, "it is the same file", os.SameFile(before, testenv.Must(os.Lstat(path+Suffix))), true)
			testenv.Same(t, "the other file", string(testenv.Must(os.ReadFile(victim))), "precious")
			testenv.Is(t, "the link's target", testenv.Err(os.Lstat(filepath.Join(dir, "nothing"))), os.ErrNotExist)
		})
	}
}

// Prune deletes what programs that have ended did not finish, but for the first one and the latest. It touches nothing else.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	path, none := filepath.Join(dir, "x.tach"), make([]byte, tachyon.HeaderSize)
	put := func(name string, b []byte) { testenv.OK(t, os.WriteFile(filepath.Join(dir, name), b, 0o600)) }
	for _, n := range []int{1, 2, 4, 6, 8, 9} {
		name := filepath.Base(Numbered(path, n))
		put(name, none)
		put(name+Suffix, []byte("journal"))
	}
	put("x.2.tach", append([]byte("finished"), none...))
	testenv.OK(t, errors.Join(os.Remove(filepath.Join(dir, "x.4.tach")), os.Symlink("x.8.tach", filepath.Join(dir, "x.4.tach"))))
	defer create(t, Numbered(path, 5)).Close() // of a program that runs
	put("x.5.tach", none)
	for n, age := range map[int]time.Duration{10: time.Second, 11: time.Hour} { // without a profile
		name := filepath.Base(Numbered(path, n)) + Suffix
		put(name, nil)
		testenv.OK(t, os.Chtimes(filepath.Join(dir, name), time.Time{}, time.Now().Add(-age)))
	}
	size := int64(len(none) + len("journal"))
	for _, c := range []struct {
		limit      int64
		gone, left []int
	}{
		{3 * size, []int{6}, []int{1, 2, 4, 5, 8, 9, 10}}, // three stay
		{2*size - 1, []int{8, 1}, []int{2, 4, 5, 9, 10}},
		{1, nil, []int{2, 4, 5, 9, 10}},
	} {
		var gone []int
		testenv.OK(t, Prune(path, c.limit, func(paths []string) {
			for _, p := range paths {
				gone = append(gone, Number("x.tach", filepath.Base(p)))
			}
		}))
		if left := testenv.Must(Numbers(path)); !slices.Equal(gone, c.gone) || !slices.Equal(left, c.left) {
			t.Errorf("limit %d: %v are deleted, want %v; %v are left, want %v", c.limit, gone, c.gone, left, c.left)
		}
	}
}

// Only the owner can read a journal, with any umask.
func TestMode(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	path := filepath.Join(t.TempDir(), "x.tach")
	defer create(t, path).Remove()
	testenv.Same(t, "mode", testenv.Must(os.Stat(path+Suffix)).Mode(), 0o600)
}

// On a full disk the call that grows the journal returns an error. Stores never fault, and
// earlier entries can be loaded.
func testFull(t *testing.T, path string) {
	j := create(t, path)
	defer j.Remove()
	n, err := 0, error(nil)
	for ; err == nil; n++ {
		if n > 1e6 {
			t.Fatal("the disk is not full")
		}
		err = j.String(entry(n))
	}
	testenv.Is(t, "the disk is full", err, syscall.ENOSPC)
	b := j.Buffer()
	b = b[:cap(b)]
	for i := range b {
		b[i] = 0xa5 // all blocks of the buffer are allocated
	}
	j.Commit(len(b), nil)
	if s := load(t, path); int(s.NStrings) != n-1 || len(s.Records) != BufferSize {
		t.Errorf("%d of %d strings, %d bytes of records", s.NStrings, n-1, len(s.Records))
	}
}

func TestFullWhenReserving(t *testing.T) {
	defer func() { Reserve = reserve }()
	path := filepath.Join(t.TempDir(), "x.tach")
	for _, method := range []func(*os.File, int64, int64) error{reserve, reserveByWriting} {
		Reserve = func(f *os.File, off, size int64) error {
			if off >= 2*chunkSize {
				return os.NewSyscallError("fallocate", syscall.ENOSPC)
			}
			return method(f, off, size)
		}
		testFull(t, path)
	}
	Reserve = func(*os.File, int64, int64) error { return syscall.ENOSPC }
	testenv.Is(t, "Create on a full disk", testenv.Err(Create(path, head)), syscall.ENOSPC)
	testenv.Is(t, "a part of the journal", testenv.Err(os.Lstat(path+Suffix)), os.ErrNotExist)
}
