package writer

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// Create leaves nothing on a disk that has no room for the header.
func TestNoRoomForHeader(t *testing.T) {
	dir := testenv.Disk(t, "4k")
	if err := os.WriteFile(filepath.Join(dir, "all"), make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x.tach")
	if _, err := Create(path, Options{NoJournal: true}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Create: %v", err)
	}
	if fi, err := os.Lstat(path); err == nil {
		t.Errorf("a file of %d bytes is left", fi.Size())
	}
}
