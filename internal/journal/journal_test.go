//go:build darwin || dragonfly || freebsd || linux || netbsd

package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

var head = Head{Layout: uint32(tachyon.Document), Start: 1_000_000, Interval: 1000}

func create(t *testing.T, path string) *Writer {
	t.Helper()
	return testenv.Must(Create(path, head))
}

// Only one writer can use a journal, and a recovery cannot begin while it does.
func TestBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	j := create(t, path)
	testenv.Is(t, "Create", testenv.Err(Create(path, head)), ErrBusy)
	testenv.Is(t, "Lock", testenv.Err(Lock(path)), ErrBusy)
	testenv.Same(t, "the journal of a writer is held", testenv.Must(Held(path)), true)
	testenv.OK(t, j.Close())
	testenv.Same(t, "the journal of a writer that has gone is held", testenv.Must(Held(path)), false)
	testenv.Is(t, "Held without a journal", testenv.Err(Held(path+"x")), os.ErrNotExist)
	testenv.Closes(t, testenv.Must(Lock(path)))
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
			testenv.Same(t, "Create succeeds", testenv.Err(Create(path, head)) == nil, false)
			if strings.HasSuffix(name, "link") {
				testenv.Same(t, "Lock follows the link", testenv.Err(Lock(path)) == nil, false)
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
		testenv.SameList(t, fmt.Sprint("limit ", c.limit, ": deleted"), gone, c.gone)
		testenv.SameList(t, fmt.Sprint("limit ", c.limit, ": left"), testenv.Must(Numbers(path)), c.left)
	}
}

// Only the owner can read a journal, with any umask.
func TestMode(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	path := filepath.Join(t.TempDir(), "x.tach")
	defer create(t, path).Remove()
	testenv.Same(t, "mode", testenv.Must(os.Stat(path+Suffix)).Mode(), 0o600)
}

// On a full disk the call that grows the journal returns an error. Stores never fault. A block frees the pages of its records.
func testFull(t *testing.T, path string) {
	j := create(t, path)
	defer j.Remove()
	before := len(j.free)
	testenv.OK(t, errors.Join(j.Records(make([]byte, 3*PageSize)), j.Block([]byte("block"))))
	testenv.Same(t, "free pages", len(j.free), before-1)
	n, err := 0, error(nil)
	for ; err == nil; n++ {
		testenv.StopIf(t, n > 1e6, "the disk is not full")
		err = j.String(make([]byte, 1000))
	}
	testenv.Is(t, "the disk is full", err, syscall.ENOSPC)
	b := j.Buffer()
	b = b[:cap(b)]
	for i := range b {
		b[i] = 0xa5 // all blocks of the buffer are allocated
	}
	j.Commit(len(b), nil)
}

func TestFullWhenReserving(t *testing.T) {
	defer func() { Reserve = reserve }()
	path := filepath.Join(t.TempDir(), "x.tach")
	for _, method := range []func(*os.File, int64, int64) error{reserve, reserveByWriting} {
		Reserve = func(f *os.File, off, size int64) error {
			if off >= 2*ChunkSize {
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
