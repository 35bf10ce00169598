package rotate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gotach/profiler/internal/journal"
)

// Belongs reports whether a path is that of an output's file or journal, of any number. Both are
// absolute. It follows symbolic links.
func Belongs(output, path string) bool {
	output, path = real(output), real(path)
	base := strings.TrimSuffix(filepath.Base(path), journal.Suffix)
	return filepath.Dir(output) == filepath.Dir(path) && (base == filepath.Base(output) || journal.Number(filepath.Base(output), base) > 0)
}

// Same reports whether two absolute paths are those of one file, which may not exist yet. It
// follows symbolic links.
func Same(a, b string) bool { return real(a) == real(b) }

// real returns an absolute path without symbolic links. The file may not exist yet.
func real(path string) string {
	if target, err := os.Readlink(path); err == nil {
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target // of a link to nothing
	}
	if p, err := filepath.EvalSymlinks(path); err == nil {
		path = p
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// A file is a finished file and its state when it was finished.
type file struct {
	path string
	info os.FileInfo // nil if the file had been removed
	size int64       // with the journal, which is there only if the file could not be finished
	end  uint64      // µs; of its samples
	kept bool        // for the reason of Keep
}

func remember(path string) file {
	fi, err := os.Lstat(path)
	if err != nil {
		return file{path: path}
	}
	f := file{path: path, info: fi, size: fi.Size()}
	if j, err := os.Lstat(path + journal.Suffix); err == nil {
		f.size += j.Size()
	}
	return f
}

// there reports whether the file still has its name and is unchanged. The session does not
// delete a file that somebody moved, changed or replaced.
func (f file) there() bool {
	now := remember(f.path).info
	return f.info != nil && now != nil && os.SameFile(f.info, now) &&
		now.Size() == f.info.Size() && now.ModTime().Equal(f.info.ModTime())
}

// prune deletes the oldest files until the others are within the limits, and likewise of those that
// are kept for a reason.
func (w *Writer) prune() (failed error) {
	var count [2]int
	var bytes [2]int64
	at := len(w.finished) // the files that stay are from there on
	for i := at - 1; i >= 0; i-- {
		f := w.finished[i]
		if !f.there() {
			continue
		}
		k := 0
		if f.kept {
			k = 1
		}
		count[k]++
		bytes[k] += f.size
		if failed == nil && count[k] > 1 && (count[k] > w.o.Keep || bytes[k] > w.o.KeepBytes) {
			err := os.Remove(f.path)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				// There is a journal only if the file could not be finished.
				_ = os.Remove(f.path + journal.Suffix)
				continue
			}
			failed = fmt.Errorf("rotation cannot delete an old file: %w", err)
		}
		at--
		w.finished[at] = f
	}
	w.finished = append([]file(nil), w.finished[at:]...)
	return failed
}

// keepAround is how long before and after the moment that is worth keeping files are kept, in µs.
// No more than one moment in such a time counts.
const keepAround = 60_000_000

// mostReason is the length in bytes to which the reason for a file is cut: it is in each record of
// the progress.
const mostReason = 200

// Keep keeps the files with samples of the minute before and after a time, in µs, apart from the
// others: both have the limits of Options, each by itself. The file that is being written gets the
// reason, and so does the next one if it begins within a minute. Keep returns false if it was
// called for a time less than a minute before. Any goroutine may call it.
func (w *Writer) Keep(at uint64, reason string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keepAt != 0 && at < w.keepAt+keepAround {
		return false
	}
	w.keepAt, w.why = at, reason[:min(len(reason), mostReason)]
	for i := range w.finished {
		w.finished[i].kept = w.finished[i].kept || w.finished[i].end+keepAround >= at
	}
	return true
}

// reason returns why a file with samples between two times, in µs, is kept; "" if nobody asked for
// that.
func (w *Writer) reason(from, to uint64) (why string) {
	w.mu.Lock()
	if w.keepAt != 0 && from <= w.keepAt+keepAround && to+keepAround >= w.keepAt {
		why = w.why
	}
	w.mu.Unlock()
	return why
}
