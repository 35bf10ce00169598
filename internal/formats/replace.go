package formats

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/gotach/profiler/internal/files"
)

// Replace writes a file that appears when it is complete. It is private to its owner, or has the
// permissions of the file that was there. A device or a pipe is written to as it is. After an error
// there is no file, or the one that was there before. If the process is killed, Linux leaves
// nothing; other systems, and file systems such as NFS, leave a hidden file. The writer is an
// *os.File.
func Replace(out string, write func(io.Writer) error) (err error) {
	if fi, err := os.Lstat(out); err == nil && fi.Mode()&fs.ModeSymlink != 0 && !files.TrustedOwner(fi) {
		return errors.New("the symbolic link belongs to another user and is not followed")
	}
	if real, err := filepath.EvalSymlinks(out); err == nil {
		out = real
	}
	dir := filepath.Dir(out)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no folder %s; make it first", dir)
	}
	mode := os.FileMode(0o600)
	if fi, err := os.Stat(out); err == nil {
		if fi.IsDir() {
			return errors.New("it is a folder; name a file in it")
		}
		if !fi.Mode().IsRegular() { // a device or a pipe, which must not be replaced
			w, err := os.OpenFile(out, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			return errors.Join(write(w), w.Close())
		}
		mode = fi.Mode().Perm()
	}
	if w, link := nameless(dir); w != nil {
		defer w.Close()
		if err := write(w); err != nil {
			return err
		}
		if err := w.Chmod(mode); err != nil {
			return err
		}
		return appear(out, link)
	}
	w, err := os.CreateTemp(dir, "."+filepath.Base(out)+".*")
	if err != nil {
		if e := (*os.PathError)(nil); errors.As(err, &e) {
			e.Path = out // not the temporary name, which users do not know
		}
		return err
	}
	defer func() {
		if err != nil {
			w.Close()
			os.Remove(w.Name())
		}
	}()
	if err := write(w); err != nil {
		return err
	}
	if err := w.Chmod(mode); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.Rename(w.Name(), out)
}

// Creatable returns an error that names a path if no file can be made there. It leaves what is
// there as it is.
func Creatable(out string) error {
	if fi, err := os.Stat(out); err == nil && !fi.IsDir() {
		return nil
	}
	stop := errors.New("stop")
	if err := Replace(out, func(io.Writer) error { return stop }); !errors.Is(err, stop) {
		return Named(out, err)
	}
	return nil
}

// appear gives a nameless file the name out. Only renaming replaces a file that is there, so it has
// another name for a moment.
func appear(out string, link func(name string) error) error {
	err := link(out)
	if errors.Is(err, fs.ErrExist) {
		name := filepath.Join(filepath.Dir(out), fmt.Sprintf(".%s.%d", filepath.Base(out), rand.Uint64()))
		if err = link(name); err == nil {
			if err = os.Rename(name, out); err != nil {
				os.Remove(name)
			}
		}
	}
	return err
}
