package journal

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// TestFullDisk uses real full disks: one has no room for a journal, one has no room for its
// growth, and one cannot allocate blocks without writing them.
func TestFullDisk(t *testing.T) {
	for _, byWriting := range []bool{false, true} {
		if byWriting {
			Reserve = reserveByWriting
			defer func() { Reserve = reserve }()
		}
		path := filepath.Join(testenv.Disk(t, "512k"), "x.tach")
		if _, err := Create(path, head); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("error %v", err)
		}
		if _, err := os.Lstat(path + Suffix); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a part of the journal still exists: %v", err)
		}
		testFull(t, filepath.Join(testenv.Disk(t, "1536k"), "x.tach"))
	}
}
