package infile

import (
	"errors"
	"io/fs"
	"os"

	"github.com/gotach/profiler/internal/files"
)

// ErrReplaced is in the error of [OpenIn] if another file got the name meanwhile.
var ErrReplaced = errors.New("the file was replaced while it was opened")

// OpenIn opens a regular file below root with the flags of [os.OpenFile], which must not create it.
// It does not wait. The file is no symbolic link, and links in the rest of the path do not lead out
// of root. So whoever may write to root cannot make OpenIn open another file.
func OpenIn(root *os.Root, name string, flag int) (*os.File, fs.FileInfo, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if before.Mode()&fs.ModeSymlink != 0 {
		return nil, nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("it is a symbolic link, not a regular file")}
	}
	if err := files.Regular(name, before); err != nil {
		return nil, nil, err
	}
	f, err := root.OpenFile(name, flag|files.Nonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !os.SameFile(before, fi) { // os.Root follows links that stay below it
		err = &fs.PathError{Op: "open", Path: name, Err: ErrReplaced}
	}
	if err == nil {
		err = files.Regular(name, fi)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}
