package journal

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// Disks that are full indeed: one that has no room for a journal, one on which it
// cannot grow, and one that cannot reserve blocks without writing them.
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
			t.Errorf("the beginning of it is still there: %v", err)
		}
		testFull(t, filepath.Join(testenv.Disk(t, "1536k"), "x.tach"))
	}
}
