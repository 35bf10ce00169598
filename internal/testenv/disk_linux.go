package testenv

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Disk returns an empty directory on a tmpfs of the given size, such as "512k". All
// files in it must be closed when the test ends.
func Disk(t testing.TB, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("gotach-test", dir, "tmpfs", 0, "size="+size); err != nil {
		Skip(t, "no tmpfs: only root may mount one: "+err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}
