package rotate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/gotach/profiler/internal/journal"
)

// A file is a finished file and its state when it was finished.
type file struct {
	path string
	info os.FileInfo // nil if the file had been removed
}

func remember(path string) file {
	fi, err := os.Lstat(path)
	if err != nil {
		fi = nil
	}
	return file{path, fi}
}

// there reports whether the file still has its name and is unchanged. The session does not
// delete a file that somebody moved, changed or replaced.
func (f file) there() bool {
	now := remember(f.path).info
	return f.info != nil && now != nil && os.SameFile(f.info, now) &&
		now.Size() == f.info.Size() && now.ModTime().Equal(f.info.ModTime())
}

// prune deletes the oldest files until the others are within the limits.
func (w *Writer) prune() error {
	var list []file
	var bytes int64
	for _, f := range w.finished {
		if f.there() {
			list = append(list, f)
			bytes += f.info.Size()
		}
	}
	var failed error
	for len(list) > 1 && (len(list) > w.o.Keep || bytes > w.o.KeepBytes) {
		f := list[0]
		if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = fmt.Errorf("rotation cannot delete an old file: %w", err)
			break
		}
		// There is a journal only if the file could not be finished.
		_ = os.Remove(f.path + journal.Suffix)
		list, bytes = list[1:], bytes-f.info.Size()
	}
	w.finished = list
	return failed
}
