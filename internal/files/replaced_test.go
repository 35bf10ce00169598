//go:build unix

package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

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
				if f.Close(); fi.Size() > 0 {
					t.Fatal("the other file was opened")
				}
			}
		}
		return replaced
	})
	close(stop)
	testenv.OK(t, <-ended)
	if !replaced {
		t.Error("this is not tested")
	}
}
