package writer

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// readOnly tests a file system that is read-only when the file is made.
func readOnly(t *testing.T, path string) string {
	dir := filepath.Dir(path)
	if err := syscall.Mount("gotach-test", dir, "tmpfs", syscall.MS_RDONLY, "size=4k"); err != nil {
		testenv.Missing(t, "read-only tmpfs", "only root may mount one: "+err.Error())
	}
	defer syscall.Unmount(dir, 0)
	w, err := Create(path, Options{})
	if err == nil {
		w.Close()
		t.Fatal("no error")
	}
	return "no session; error: " + kindOf(err)
}
