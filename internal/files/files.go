// Package files opens files that others may have written or named. A name may stand for a pipe, a device or a
// folder: opening a pipe waits for another program, and reading a device may never end.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrTooLarge is in the error of [Read] for a file above the limit.
var ErrTooLarge = errors.New("the file is too large")

const folder = "a folder"

// ErrIrregular is in the error for what is no regular file.
var ErrIrregular = errors.New("not a regular file")

// Open opens a regular file for reading. It does not wait. Symbolic links are followed.
func Open(path string) (*os.File, fs.FileInfo, error) {
	if fi, err := os.Stat(path); err != nil {
		if e := (*fs.PathError)(nil); errors.As(err, &e) {
			e.Op = "open"
		}
		return nil, nil, err
	} else if err := regular(path, fi); err != nil {
		return nil, nil, err // opening some devices has an effect
	}
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil {
		err = regular(path, fi) // another file may have the name by now
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

// Read returns the content of a regular file of at most limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	f, _, err := Open(path)
	return readAll(f, err, path, limit)
}

// OpenInput opens what the user has named: a regular file, or a stream that this process has open already, such as /dev/stdin or
// the /dev/fd/63 that a shell makes of <(command). Reading a stream may wait, and may have no end.
func OpenInput(path string) (*os.File, fs.FileInfo, error) {
	f, fi, err := Open(path)
	if !errors.Is(err, ErrIrregular) {
		return f, fi, err
	}
	if dir, name := filepath.Split(filepath.Clean(path)); dir != "/dev/fd/" && dir != "/proc/self/fd/" && dir+name != "/dev/stdin" {
		if e := (*fs.PathError)(nil); errors.As(err, &e) && !strings.Contains(e.Err.Error(), folder) {
			e.Err = fmt.Errorf("%w; standard input can be one, with - or /dev/stdin as name", e.Err)
		}
		return nil, nil, err
	}
	if f, err = os.Open(path); err != nil {
		return nil, nil, err
	}
	if fi, err = f.Stat(); err == nil && fi.IsDir() {
		err = regular(path, fi)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

// ReadInput returns the content of at most limit bytes of what OpenInput opens.
func ReadInput(path string, limit int64) ([]byte, error) {
	f, _, err := OpenInput(path)
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

func regular(path string, fi fs.FileInfo) error {
	kind := ""
	switch m := fi.Mode(); {
	case m.IsRegular():
		return nil
	case m.IsDir():
		kind = folder
	case m&fs.ModeNamedPipe != 0:
		kind = "a pipe"
	case m&fs.ModeSocket != 0:
		kind = "a socket"
	default:
		kind = "a device"
	}
	return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("it is %s, %w", kind, ErrIrregular)}
}
