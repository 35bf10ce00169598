package push

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/journal"
)

const (
	extension  = ".tach"
	refusedDir = "refused" // in the directory

	// settled is how long an unfinished file and its journal must have been as they are before
	// anybody asks whether their program lives. So a program that is starting is left alone.
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

// maxDepth is the number of folders below each other in which profiles are looked for.
const maxDepth = 32

// list returns the profiles in a directory and in those below it, the oldest ones first. Links and
// names that begin with a dot are left out, and so are what was parked, and the folder state. What
// cannot be read below the directory is left out too; errs has why.
func (d *folder) list(state *folder) (entries []entry, errs []error, err error) {
	err = fs.WalkDir(d.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = d.Lstat(path)
		}
		hidden := strings.HasPrefix(e.Name(), ".") || path == refusedDir
		switch {
		case path == ".":
			return err
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			errs = append(errs, err)
		case info.IsDir() && (hidden || os.SameFile(info, state.info)):
			return fs.SkipDir
		case info.IsDir() && strings.Count(path, "/") >= maxDepth:
			errs = append(errs, &fs.PathError{Op: "read", Path: path, Err: errors.New("too many folders below each other")})
			return fs.SkipDir
		case info.Mode().IsRegular() && strings.HasSuffix(path, extension) && !hidden:
			entries = append(entries, entry{path, info.Size(), info.ModTime()})
		}
		return nil
	})
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(a.mod.Compare(b.mod), strings.Compare(a.name, b.name)) })
	return entries, errs, err
}

// finished reports whether nobody will write to a file any more: its writer has finished it, or was
// killed. It is not an error if the file is gone: then it is finished.
func (d *folder) finished(e entry, now time.Time) bool {
	if d.headed(e.name) {
		return true
	}
	held := false
	lock, _, err := d.open(e.name+journal.Suffix, os.O_RDONLY)
	if err == nil {
		held, err = journal.HeldFile(lock)
	}
	wait := settled
	switch {
	case held:
		return false
	case errors.Is(err, fs.ErrNotExist):
		return d.headed(e.name) // it was finished just now; or there is nothing to read
	case err != nil:
		wait = silent
	}
	latest := e.mod
	if fi, err := d.Lstat(e.name + journal.Suffix); err == nil && fi.ModTime().After(latest) {
		latest = fi.ModTime()
	}
	return now.Sub(latest) >= wait
}

// headed reports whether a file begins with something else than zeros, which are there until it is
// finished.
func (d *folder) headed(name string) bool {
	f, _, err := d.open(name, os.O_RDONLY)
	if err != nil {
		return true
	}
	defer f.Close()
	var head [4]byte
	_, err = io.ReadFull(f, head[:])
	return err == nil && head != [4]byte{}
}
