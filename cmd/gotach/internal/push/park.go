package push

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/journal"
)

// reasonSuffix is added to a parked file's name for the file that says why.
const reasonSuffix = ".reason.txt"

// maxParked is the number of profiles that are parked at most.
const maxParked = 1000

// A parking is the folder for refused files.
type parking struct {
	dir, state *folder // of the files, and in which the parking is
	limit      int64   // bytes

	refused *folder // nil: not opened yet
	files   int     // at most so many profiles
	bytes   int64   // and bytes
	counts  int     // how often they were counted
}

// open opens the folder, and makes it if need be.
func (k *parking) open() error {
	if k.refused != nil {
		return nil
	}
	if err := k.state.Mkdir(refusedDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := k.state.Lstat(refusedDir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no folder", refusedDir)
	}
	if err := onlyOurs(info); err != nil {
		return fmt.Errorf("%s: %w", refusedDir, err)
	}
	root, err := k.state.OpenRoot(refusedDir)
	if err != nil {
		return err
	}
	if again, err := root.Stat("."); err != nil || !os.SameFile(again, info) {
		root.Close()
		return cmp.Or(err, errReplaced)
	}
	k.refused = &folder{root, path.Join(k.state.path, refusedDir), info}
	return nil
}

func (k *parking) close() {
	if k.refused != nil {
		k.refused.Close()
	}
}

// park keeps a file, with its journal if it has one, and beside it a file that says why. The
// original stays: other targets may want it, and its program deletes it. The two share their space
// on the disk if the file system has links. When there are too many, the oldest ones are deleted.
func (k *parking) park(name, target string, why error) (deleted int, err error) {
	if err := k.open(); err != nil {
		return 0, err
	}
	if err := k.refused.MkdirAll(path.Dir(name), 0o700); err != nil {
		return 0, err
	}
	if k.files++; k.files == 1 {
		k.files = maxParked + 1 // what the process before this one has left is not known
	}
	if err := k.keep(name); err != nil {
		return 0, err
	}
	if err := k.keep(name + journal.Suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	reason, err := k.refused.create(name+reasonSuffix, os.O_WRONLY)
	if err != nil {
		return 0, err
	}
	text := fmt.Sprintf("%s\nnot sent to %s: %v\n", time.Now().UTC().Format(time.RFC3339), target, why)
	k.bytes += int64(len(text))
	if _, err = reason.WriteString(text); errors.Join(err, reason.Close()) != nil {
		return 0, err
	}
	if k.files > maxParked || k.bytes > k.limit {
		return k.prune()
	}
	return 0, nil
}

// keep makes the folder have a file.
func (k *parking) keep(name string) error {
	in, info, err := k.dir.open(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer in.Close()
	size := info.Size()
	if size > k.limit {
		return fmt.Errorf("it has %d bytes, and all parked files may have %d", size, k.limit)
	}
	k.bytes += size
	if err := k.refused.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if k.dir == k.state && k.dir.Link(name, path.Join(refusedDir, name)) == nil {
		if linked, err := k.refused.Lstat(name); err == nil && os.SameFile(linked, info) {
			return nil
		}
	}
	out, err := k.refused.create(name, os.O_WRONLY)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, size))
	if err = errors.Join(err, out.Close()); err != nil {
		_ = k.refused.Remove(name)
	}
	return err
}

// A parked is a profile with the files that belong to it.
type parked struct {
	name  string
	size  int64
	since time.Time
}

// prune counts what is parked. If that is too much, it deletes the oldest ones, and some more, so
// that it has not to count again soon.
func (k *parking) prune() (deleted int, err error) {
	byName := map[string]*parked{}
	k.files, k.bytes = 0, 0
	k.counts++
	err = fs.WalkDir(k.refused.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := k.refused.Lstat(path)
		if err != nil {
			return nil // gone
		}
		name := strings.TrimSuffix(strings.TrimSuffix(path, reasonSuffix), journal.Suffix)
		p := byName[name]
		if p == nil {
			p = &parked{name: name}
			byName[name] = p
			k.files++
		}
		p.size += info.Size()
		k.bytes += info.Size()
		if info.ModTime().After(p.since) {
			p.since = info.ModTime()
		}
		return nil
	})
	if err != nil || k.files <= maxParked && k.bytes <= k.limit {
		return 0, err
	}
	var all []*parked
	for _, p := range byName {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *parked) int { return cmp.Or(a.since.Compare(b.since), strings.Compare(a.name, b.name)) })
	for _, p := range all[:len(all)-1] {
		if k.files <= maxParked*9/10 && k.bytes <= k.limit/10*9 {
			break
		}
		for _, suffix := range []string{"", journal.Suffix, reasonSuffix} {
			if err := k.refused.Remove(p.name + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return deleted, err
			}
		}
		for dir := path.Dir(p.name); dir != "." && k.refused.Remove(dir) == nil; dir = path.Dir(dir) {
		}
		k.files--
		k.bytes -= p.size
		deleted++
	}
	return deleted, nil
}
