// Package infile opens and reads what users, profiles and other programs name, for those that read
// profiles.
package infile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gotach/profiler/internal/files"
)

// ErrTooLarge is in the error of [ReadFile] and [Read] for what is above the limit.
var ErrTooLarge = errors.New("the file is too large")

// ReadFile returns the content of a regular file of at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, _, err := files.Open(path)
	return readAll(f, err, path, limit)
}

// Open opens what the user has named: a regular file, or a stream that this process has open
// already, such as /dev/stdin or the /dev/fd/63 that a shell makes of <(command). Reading a stream
// may wait, and may have no end.
func Open(path string) (*os.File, fs.FileInfo, error) {
	f, fi, err := files.Open(path)
	if !errors.Is(err, files.ErrIrregular) {
		return f, fi, err
	}
	if dir, name := filepath.Split(filepath.Clean(path)); dir != "/dev/fd/" && dir != "/proc/self/fd/" && dir+name != "/dev/stdin" {
		fi, err2 := os.Stat(path)
		if e := (*fs.PathError)(nil); errors.As(err, &e) && err2 == nil && !fi.IsDir() {
			e.Err = fmt.Errorf("%w; standard input can be one, with - or /dev/stdin as name", e.Err)
		}
		return nil, nil, err
	}
	if f, err = os.Open(path); err != nil {
		return nil, nil, err
	}
	if fi, err = f.Stat(); err == nil && fi.IsDir() {
		err = files.Regular(path, fi)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

// Read returns the content of at most limit bytes of what Open opens.
func Read(path string, limit int64) ([]byte, error) {
	f, _, err := Open(path)
	return readAll(f, err, path, limit)
}

func readAll(f *os.File, err error, path string, limit int64) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)}
	}
	return b, err
}
