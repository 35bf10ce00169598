package push

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/journal"
)

const (
	extension  = ".tach"
	refusedDir = "refused" // in the directory

	// settled is how long an unfinished file and its journal must have been as they are before anybody asks whether their
	// program lives. So a program that is starting is left alone.
	settled = 5 * time.Second
	// silent is the same where locks cannot tell.
	silent = 5 * time.Minute
)

// An entry is a file in the directory as it was listed.
type entry struct {
	name string // path in the directory
	size int64
	mod  time.Time
}

func (a entry) same(b entry) bool { return a.size == b.size && a.mod.Equal(b.mod) }

// list returns the profiles in a directory and in those below it, the oldest ones first. Links and names that begin with a
// dot are left out, and so is what was parked. What cannot be read below the directory is left out too; errs has why.
func list(dir string) (entries []entry, errs []error, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && path == dir:
			return err
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			errs = append(errs, err)
			return nil
		case d.IsDir():
			if path != dir && (strings.HasPrefix(d.Name(), ".") || path == filepath.Join(dir, refusedDir)) {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular() || !strings.HasSuffix(d.Name(), extension) || strings.HasPrefix(d.Name(), "."):
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return nil // gone
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			entries = append(entries, entry{filepath.ToSlash(name), fi.Size(), fi.ModTime()})
		}
		return err
	})
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(a.mod.Compare(b.mod), strings.Compare(a.name, b.name)) })
	return entries, errs, err
}

// finished reports whether nobody will write to a file any more: its writer has finished it, or was killed. It is not an
// error if the file is gone: then it is finished.
func finished(dir string, e entry, now time.Time) bool {
	path := filepath.Join(dir, filepath.FromSlash(e.name))
	if headed(path) {
		return true
	}
	held, err := journal.Held(path)
	wait := settled
	switch {
	case held:
		return false
	case errors.Is(err, fs.ErrNotExist):
		return headed(path) // it was finished just now; or there is nothing to read
	case err != nil:
		wait = silent
	}
	latest := e.mod
	if fi, err := os.Stat(path + journal.Suffix); err == nil && fi.ModTime().After(latest) {
		latest = fi.ModTime()
	}
	return now.Sub(latest) >= wait
}

// headed reports whether a file begins with something else than zeros, which are there until it is finished.
func headed(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer f.Close()
	var head [4]byte
	_, err = io.ReadFull(f, head[:])
	return err == nil && head != [4]byte{}
}
