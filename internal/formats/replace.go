package formats

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Replace writes a file that appears when it is complete. It is private to its owner, or has the permissions of the
// file that was there. A device or a pipe is written to as it is. After an error there is no file, or the one that
// was there before. The writer is an *os.File.
func Replace(out string, write func(io.Writer) error) (err error) {
	if real, err := filepath.EvalSymlinks(out); err == nil {
		out = real
	}
	mode := os.FileMode(0o600)
	if fi, err := os.Stat(out); err == nil {
		if !fi.Mode().IsRegular() { // a device or a pipe, which must not be replaced
			w, err := os.OpenFile(out, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			return errors.Join(write(w), w.Close())
		}
		mode = fi.Mode().Perm()
	}
	w, err := os.CreateTemp(filepath.Dir(out), "."+filepath.Base(out)+".*")
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
