package push

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/gotach/profiler/internal/infile"
)

// A folder is one that is opened once. Others may write to it, so nothing in it is opened by a path
// from outside: neither a link nor a folder that is replaced meanwhile leads out of it.
type folder struct {
	*os.Root
	path string
	info fs.FileInfo
}

func openFolder(path string) (*folder, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	return &folder{root, path, info}, nil
}

// inPlace returns nil if the folder still has its path: it may have been deleted and made again, or
// mounted.
func (d *folder) inPlace() error {
	info, err := os.Stat(d.path)
	if err == nil && !os.SameFile(info, d.info) {
		err = errReplaced // nothing else tells that files are missing
	}
	return err
}

var errReplaced = errors.New("another folder has this name now")

// onlyOurs returns nil if nobody else may write to a file or folder. A folder of this user may be
// one of a group too.
func onlyOurs(info fs.FileInfo) error {
	uid, ok := owner(info)
	mine := uid == os.Geteuid()
	switch mode := info.Mode().Perm(); {
	case !ok: // this system does not say
		return nil
	case mode&0o002 != 0:
		return errors.New("everybody may write to it")
	case mine && (mode&0o020 == 0 || info.IsDir()):
		return nil
	case mode&0o020 != 0:
		return errors.New("its group may write to it")
	case uid != 0 || !info.IsDir():
		return fmt.Errorf("it belongs to user %d", uid)
	}
	return nil
}

// open opens a regular file. It does not follow links.
func (d *folder) open(name string, flag int) (*os.File, fs.FileInfo, error) {
	return infile.OpenIn(d.Root, name, flag)
}

// create creates a file in place of what has the name, such as a link that somebody has put there.
func (d *folder) create(name string, flag int) (*os.File, error) {
	if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return d.OpenFile(name, flag|os.O_CREATE|os.O_EXCL, 0o600)
}
