package dcpi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Path returns where in a database a profile lies:
// <epoch>/<host>/<image name>.<image>.<event>.
func (h *Header) Path() string {
	value := func(word string) string { v, _ := h.Value(word); return v }
	return filepath.Join(
		element(value("epoch")),
		element(value("platform")),
		element(h.ImageName()+"."+value("image")+"."+value("event")),
	)
}

// element makes a name that is one element of a path and stays in its directory.
func element(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r < ' ' {
			return '_'
		}
		return r
	}, s)
	if strings.Trim(s, ".") == "" {
		return "_" + s
	}
	return s
}

// Flush adds the profile to a database, the directory db, which is made where
// it is missing, and returns the file that has it. Samples of the same image
// and event that the file has already are kept, as are its header lines. The
// file is replaced at once, so that a reader sees the old or the new one;
// processes that flush at the same time wait for each other.
func (p *Profile) Flush(db string) (file string, err error) {
	file = filepath.Join(db, p.Path())
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return file, err
	}
	unlock, err := lock(dir)
	if err != nil {
		return file, fmt.Errorf("%s: cannot lock: %w", dir, err)
	}
	defer unlock()

	old, err := ReadFile(file, Options{})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		old = p
	case err != nil:
		return file, err
	default:
		if err := old.Merge(p); err != nil {
			return file, fmt.Errorf("%s: %w", file, err)
		}
	}
	return file, old.WriteFile(file)
}

// ReadFile reads the profile in a file.
func ReadFile(name string, o Options) (*Profile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(f, name, o)
}

// WriteFile writes the profile to a file, which is replaced only when all of it
// is written.
func (p *Profile) WriteFile(name string) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".dcpi-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already if all went well
	err = p.Write(f)
	if e := f.Chmod(0o644); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
