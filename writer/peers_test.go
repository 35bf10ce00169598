//go:build linux && peers

package writer

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// The writer does not follow another user's symbolic link.
func TestPeerForeignLink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link.tach")
	precious := finished(t) // what is no profile would not be overwritten anyway
	testenv.OK(t, errors.Join(os.WriteFile(target, precious, 0o600), os.Symlink("target", link)))
	if err := os.Lchown(link, 12345, -1); err != nil {
		testenv.Skip(t, "no another user's link: only root may make one: "+err.Error())
	}
	testenv.Fails(t, "another user's link", testenv.Err(Create(link, Options{})), "is not followed")
	testenv.SameList(t, "the target", testenv.Must(os.ReadFile(target)), precious)
}

// Create leaves nothing on a disk that has no room for the header.
func TestPeerNoRoomForHeader(t *testing.T) {
	dir := testenv.Disk(t, "4k")
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "all"), make([]byte, 4096), 0o600))
	path := filepath.Join(dir, "x.tach")
	testenv.Is(t, "Create", testenv.Err(Create(path, Options{NoJournal: true})), syscall.ENOSPC)
	testenv.Is(t, "the file", testenv.Err(os.Lstat(path)), os.ErrNotExist)
}

// The row of docs/faults.md with a file system that is read-only when the file is made is true.
func TestPeerReadOnly(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("gotach-test", dir, "tmpfs", syscall.MS_RDONLY, "size=4k"); err != nil {
		testenv.Skip(t, "no read-only tmpfs: only root may mount one: "+err.Error())
	}
	defer syscall.Unmount(dir, 0)
	nothing := func(string) (end func()) { return nil }
	testenv.Same(t, "result", atCreate(nothing)(t, filepath.Join(dir, "x.tach")), readOnlyResult)
}
