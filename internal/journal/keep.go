package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/files"
	"github.com/gotach/profiler/tachyon"
)

// The limits of the unfinished files that programs that were killed have left of one output.
const (
	maxKept = 3
	// MaxKeptBytes is the usual limit for Prune.
	MaxKeptBytes = 1_000_000_000 // with their journals; the latest file stays even if it is larger
)

// Exists reports whether the profile at path has a journal.
func Exists(path string) bool {
	fi, err := os.Stat(path + Suffix)
	return err == nil && fi.Mode().IsRegular()
}

// Numbered returns the path of the nth file of an output: app.1.tach, app.2.tach.
func Numbered(path string, n int) string {
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s.%d%s", strings.TrimSuffix(path, ext), n, ext)
}

// Numbers returns the numbers in the names of an output's files, of any session, in ascending
// order. A number whose file has only its journal counts too.
func Numbers(path string) (list []int, err error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if n := Number(filepath.Base(path), name); n > 0 {
			list = append(list, n)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i] < list[j] }) // slices.Sort takes 9 KB of the program for each type
	return slices.Compact(list), err
}

// Number returns n if name is the nth file of an output, or that file's journal. Otherwise it
// returns 0.
func Number(output, name string) int {
	ext := filepath.Ext(output)
	rest, ok := strings.CutPrefix(strings.TrimSuffix(name, Suffix), strings.TrimSuffix(output, ext)+".")
	if !ok {
		return 0
	}
	rest, ok = strings.CutSuffix(rest, ext)
	// Numbers of 10 digits are not ours, and the next number must not overflow.
	if n, err := strconv.ParseUint(rest, 10, 31); ok && err == nil && len(rest) < 10 {
		return int(n)
	}
	return 0
}

// Keep moves the unfinished profile at path and its journal to the next number of the output, and
// returns the new path. The error wraps ErrBusy if a program writes the profile.
func Keep(path string) (to string, err error) {
	lock, err := Lock(path)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	list, err := Numbers(path)
	if err != nil {
		return "", err
	}
	n := 1
	if len(list) > 0 {
		n += list[len(list)-1]
	}
	for ; ; n++ {
		to = Numbered(path, n)
		if err := move(path, to); !errors.Is(err, fs.ErrExist) {
			return to, err
		}
	}
}

// move moves a profile and its journal, which the caller has locked. If the program is killed in
// between, the profile has a journal under its old or its new name: the journal has both names for
// a while.
func move(path, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return fs.ErrExist
	}
	err := os.Link(path+Suffix, to+Suffix)
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	if err != nil { // the file system has no links
		if err := os.Rename(path+Suffix, to+Suffix); err != nil {
			return err
		}
	}
	if err := os.Rename(path, to); err != nil {
		return errors.Join(err, os.Rename(to+Suffix, path+Suffix))
	}
	return ignoreMissing(os.Remove(path + Suffix))
}

// Prune deletes unfinished files of an output whose programs have ended, until three are left and
// until these have at most so many bytes. The oldest one stays, and the latest ones: of a program
// that fails again and again, these are what came before the first failure and the present state.
// If the bytes are too many for that, only the latest ones stay. Finished files stay. Before it
// deletes any, it calls deleting with their paths: a program that is killed in between has said
// what is lost.
func Prune(path string, limit int64, deleting func(paths []string)) error {
	list, err := Numbers(path)
	if err != nil {
		return err
	}
	var left, excess []string
	var sizes []int64
	total := int64(0)
	for _, n := range list {
		p := Numbered(path, n)
		if size := abandoned(p); size > 0 {
			left, sizes, total = append(left, p), append(sizes, size), total+size
		}
	}
	for len(left) > 1 && (len(left) > maxKept || total > limit) {
		i := min(1, len(left)-2) // the oldest one goes last but for the latest one
		excess = append(excess, left[i])
		total -= sizes[i]
		left, sizes = slices.Delete(left, i, i+1), slices.Delete(sizes, i, i+1)
	}
	if len(excess) > 0 && deleting != nil {
		deleting(excess)
	}
	for _, p := range excess {
		err = errors.Join(err, remove(p))
	}
	return err
}

// abandoned returns the bytes of an unfinished profile and its journal. It returns 0 if there are
// no such files, or if a program may be using them. It deletes an old journal without a profile.
func abandoned(path string) int64 {
	if held, err := Held(path); err != nil || held {
		return 0
	}
	journal, err := os.Lstat(path + Suffix)
	if err != nil || !journal.Mode().IsRegular() {
		return 0
	}
	profile, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // killed before it made the profile, or in move
		if time.Since(journal.ModTime()) > time.Minute { // otherwise a program may be about to make it
			_ = os.Remove(path + Suffix)
		}
		return 0
	case err != nil || !profile.Mode().IsRegular():
		return 0
	}
	f, _, err := files.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	var head [tachyon.HeaderSize]byte
	if _, err := f.ReadAt(head[:], 0); err != nil && err != io.EOF || head != [tachyon.HeaderSize]byte{} {
		return 0 // finished
	}
	return profile.Size() + journal.Size()
}

// remove deletes an abandoned profile and its journal. The lock keeps others from recovering it
// meanwhile.
func remove(path string) error {
	lock, err := Lock(path)
	if err != nil {
		return ignoreMissing(err)
	}
	defer lock.Close()
	return errors.Join(ignoreMissing(os.Remove(path)), ignoreMissing(os.Remove(lock.Name())))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
