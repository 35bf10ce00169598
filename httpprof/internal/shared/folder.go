package shared

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
)

const (
	folders  = "gotach-http-*"
	lockName = "lock"
)

var swept sync.Once

// Folder makes a folder in the temporary directory. It holds a locked file as long as the process
// lives and remove has not been called. The first call in a process removes those of processes that
// have ended without removing them.
func Folder() (dir string, remove func() error, err error) {
	swept.Do(Sweep)
	if dir, err = os.MkdirTemp("", folders); err != nil {
		return "", nil, err
	}
	fresh := filepath.Join(dir, lockName+".new")
	f, err := os.OpenFile(fresh, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	// Sweep leaves folders without the file. So it gets its name when it is locked, and not where
	// files cannot be locked.
	if lock(f) == nil {
		_ = os.Rename(fresh, filepath.Join(dir, lockName))
	}
	return dir, func() error { return errors.Join(f.Close(), os.RemoveAll(dir)) }, nil
}

// Sweep removes the folders of this user's processes that have ended.
func Sweep() {
	list, _ := filepath.Glob(filepath.Join(os.TempDir(), folders))
	for _, dir := range list {
		if fi, err := os.Lstat(dir); err == nil && fi.IsDir() && mine(fi) && abandoned(filepath.Join(dir, lockName)) {
			_ = os.RemoveAll(dir) // another process may do it at the same time
		}
	}
}
