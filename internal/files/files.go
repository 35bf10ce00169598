// Package files opens files that others may have written or named. A name may stand for a pipe, a
// device or a folder: opening a pipe waits for another program, and reading a device may never end.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrIrregular is in the error for what is no regular file.
var ErrIrregular = errors.New("not a regular file")

// Open opens a regular file for reading. It does not wait. Symbolic links are followed.
func Open(path string) (*os.File, fs.FileInfo, error) {
	if fi, err := os.Stat(path); err != nil {
		if e := (*fs.PathError)(nil); errors.As(err, &e) {
			e.Op = "open"
		}
		return nil, nil, err
	} else if err := Regular(path, fi); err != nil {
		return nil, nil, err // opening some devices has an effect
	}
	f, err := os.OpenFile(path, os.O_RDONLY|Nonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil {
		err = Regular(path, fi) // another file may have the name by now
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

// Regular returns an error that says what a file is if it is no regular one.
func Regular(path string, fi fs.FileInfo) error {
	kind := ""
	switch m := fi.Mode(); {
	case m.IsRegular():
		return nil
	case m.IsDir():
		kind = "a folder"
	case m&fs.ModeNamedPipe != 0:
		kind = "a pipe"
	case m&fs.ModeSocket != 0:
		kind = "a socket"
	default:
		kind = "a device"
	}
	return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("it is %s, %w", kind, ErrIrregular)}
}
