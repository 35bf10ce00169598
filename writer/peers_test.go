//go:build linux && peers

package writer

import (
	"bytes"
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
	if _, err := Create(link, Options{}); err == nil {
		t.Error("another user's link is followed")
	}
	if b, err := os.ReadFile(target); !bytes.Equal(b, precious) {
		t.Errorf("the target is now %q, %v", b, err)
	}
}

// Create leaves nothing on a disk that has no room for the header.
func TestPeerNoRoomForHeader(t *testing.T) {
	dir := testenv.Disk(t, "4k")
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "all"), make([]byte, 4096), 0o600))
	path := filepath.Join(dir, "x.tach")
	if _, err := Create(path, Options{NoJournal: true}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Create: %v", err)
	}
	if fi, err := os.Lstat(path); err == nil {
		t.Errorf("a file of %d bytes is left", fi.Size())
	}
}

// The row of docs/faults.md with a file system that is read-only when the file is made is true.
func TestPeerReadOnly(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("gotach-test", dir, "tmpfs", syscall.MS_RDONLY, "size=4k"); err != nil {
		testenv.Skip(t, "no read-only tmpfs: only root may mount one: "+err.Error())
	}
	defer syscall.Unmount(dir, 0)
	nothing := func(string) (end func()) { return nil }
	if got := atCreate(nothing)(t, filepath.Join(dir, "x.tach")); got != readOnlyResult {
		t.Errorf("%s, want %s", got, readOnlyResult)
	}
}
