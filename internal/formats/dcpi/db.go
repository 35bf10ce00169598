package dcpi

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/files"
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

// element turns a name into one element of a path that stays in its directory.
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

// Flush adds the profile to a database, the directory db, which is made if it is
// missing. It returns the name of the file. If the file has samples of the same image
// and event already, they are kept, and so are its header lines. The file is replaced
// in one step, so readers see the old or the new one. Processes that flush at the same
// time wait for each other.
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
	f, _, err := files.Open(name)
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

// ReadDatabase reads all profiles of a database or of one of its directories. It
// skips files of other formats and files whose names begin with a dot. A damaged
// profile is an error.
func ReadDatabase(db string, o Options) (ps []*Profile, err error) {
	err = walk(db, func(path string) error {
		p, err := ReadFile(path, o)
		ps = append(ps, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(ps) == 0 {
		return nil, fmt.Errorf("%s: no DCPI profile is in it", db)
	}
	return ps, nil
}

// IsDatabase reports whether a directory, or one at most two levels below it, has a
// profile.
func IsDatabase(dir string) bool {
	found := false
	walk(dir, func(string) error {
		found = true
		return fs.SkipAll
	})
	return found
}

// walk calls f for each file below db that looks like a profile.
func walk(db string, f func(path string) error) error {
	return filepath.WalkDir(db, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(db, path)
		if err != nil {
			return err
		}
		// <epoch>/<host>/<file>: deeper files are no part of a database.
		if d.IsDir() && strings.Count(rel, string(filepath.Separator)) > 1 {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".") {
			return nil
		}
		head, err := readHead(path)
		if err != nil || !Sniff(head) {
			return err
		}
		return f(path)
	})
}

func readHead(path string) ([]byte, error) {
	f, _, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, sniffSize))
}

// sniffSize is the number of bytes that tell whether a file is a DCPI profile.
const sniffSize = 4096

// Sniff reports whether a file that begins with head is a profile: it has lines "word
// value" up to the line that ends the header, and at least three of the words are
// required ones. The output of dcpicat begins alike, but has no such last line and
// no period.
func Sniff(head []byte) bool {
	known, period := 0, false
	for text := string(head); ; {
		line, rest, whole := strings.Cut(text, "\n")
		if !whole {
			return period && known >= 3
		}
		if isTerminator(line) {
			return known >= 3
		}
		if Line(line).check() != nil {
			return false
		}
		if word := Line(line).Word(); slices.Contains(required, word) {
			known++
			period = period || word == "period"
		}
		text = rest
	}
}
