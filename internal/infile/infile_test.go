//go:build unix

package infile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// A stream that is open is read, also if its writer has ended; other pipes and folders are not, and a pipe without a writer does not stop the caller.
func TestOpen(t *testing.T) {
	r, w, err := os.Pipe()
	testenv.OK(t, err)
	defer r.Close()
	testenv.OK(t, testenv.Err(w.WriteString("12345")))
	w.Close()
	testenv.Same(t, "an open pipe", string(testenv.Must(Read(fmt.Sprint("/dev/fd/", r.Fd()), 5))), "12345")
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	testenv.OK(t, syscall.Mkfifo(pipe, 0o600))
	for path, want := range map[string]string{pipe: "it is a pipe, not a regular file; standard input", dir: "it is a folder, not a regular file$", "/dev/zero": "it is a device"} {
		if _, _, err := Open(path); err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%s: %v", path, err)
		}
	}
	file := filepath.Join(dir, "file")
	testenv.OK(t, os.WriteFile(file, []byte("12345"), 0o600))
	testenv.Same(t, file, string(testenv.Must(ReadFile(file, 5))), "12345")
	testenv.Is(t, "4 bytes", testenv.Err(ReadFile(file, 4)), ErrTooLarge)
	testenv.Fails(t, "a device", testenv.Err(Read("/dev/fd/../zero", 5)), "no such file")
}

// A file that becomes a link to another one while it is opened is not opened.
func TestOpenInReplaced(t *testing.T) {
	dir := t.TempDir()
	root := testenv.Must(os.OpenRoot(dir))
	defer root.Close()
	path := func(name string) string { return filepath.Join(dir, name) }
	testenv.OK(t, os.WriteFile(path("other"), []byte("other"), 0o600))
	testenv.OK(t, os.WriteFile(path("file"), nil, 0o600))
	stop, ended := make(chan struct{}), make(chan error)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			err = errors.Join(os.Symlink("other", path("new")), os.Rename(path("new"), path("file")), os.WriteFile(path("new"), nil, 0o600), os.Rename(path("new"), path("file")))
		}
		ended <- err
	}()
	replaced := false
	testenv.Await(func() bool {
		for range 1000 {
			f, fi, err := OpenIn(root, "file", os.O_RDONLY)
			replaced = replaced || errors.Is(err, ErrReplaced)
			if err == nil {
				f.Close()
				testenv.StopIf(t, fi.Size() > 0, "the other file was opened")
			}
		}
		return replaced
	})
	close(stop)
	testenv.OK(t, <-ended)
	testenv.Same(t, "the file was replaced meanwhile", replaced, true)
}
