package journal

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Disks that are full indeed: one that has no room for a journal, one on which it
// cannot grow, and one that cannot reserve blocks without writing them.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	mount := func(size string) {
		if err := unix.Mount("gotach-test", dir, "tmpfs", 0, "size="+size); err != nil {
			t.Skipf("cannot mount a small tmpfs: %v", err) // only root may; TestFullWhenReserving needs no rights
		}
	}
	path := filepath.Join(dir, "x.tach")
	for _, byWriting := range []bool{false, true} {
		if byWriting {
			Reserve = reserveByWriting
			defer func() { Reserve = reserve }()
		}
		mount("512k")
		if _, err := Create(path, head); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("error %v", err)
		}
		if _, err := os.Lstat(path + Suffix); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the beginning of it is still there: %v", err)
		}
		if err := unix.Unmount(dir, 0); err != nil {
			t.Fatal(err)
		}
		mount("1536k")
		testFull(t, path)
		if err := unix.Unmount(dir, 0); err != nil {
			t.Fatal(err)
		}
	}
}
