package push

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/journal"
)

// reasonSuffix is added to a parked file's name for the file that says why.
const reasonSuffix = ".reason.txt"

// park keeps a file of a directory, with its journal if it has one, in the folder for refused files, and beside it a file
// that says why. The original stays: other targets may want it, and its program deletes it. The two share their space on the disk if the
// file system has links.
func park(dir, name, target string, why error) error {
	from := filepath.Join(dir, filepath.FromSlash(name))
	to := filepath.Join(dir, refusedDir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if err := linkOrCopy(from, to); err != nil {
		return err
	}
	if err := linkOrCopy(from+journal.Suffix, to+journal.Suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	reason := fmt.Sprintf("%s\nnot sent to %s: %v\n", time.Now().UTC().Format(time.RFC3339), target, why)
	return os.WriteFile(to+reasonSuffix, []byte(reason), 0o600)
}

// linkOrCopy makes to have the content of from.
func linkOrCopy(from, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		os.Remove(to)
	}
	return err
}

// prune deletes the files in a folder that were changed longest ago until the others have no more than limit bytes.
func prune(dir string, limit int64) (deleted int, err error) {
	type file struct {
		path string
		info fs.FileInfo
	}
	var files []file
	bytes := int64(0)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil // gone
		}
		files = append(files, file{path, info})
		bytes += info.Size()
		return nil
	})
	if err != nil || bytes <= limit {
		return 0, err
	}
	slices.SortFunc(files, func(a, b file) int { return a.info.ModTime().Compare(b.info.ModTime()) })
	for _, f := range files {
		if bytes <= limit {
			break
		}
		if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return deleted, err
		}
		bytes -= f.info.Size()
		deleted++
	}
	return deleted, nil
}
