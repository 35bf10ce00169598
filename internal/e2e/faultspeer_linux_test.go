//go:build peers

package e2e

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/testenv"
)

func TestPeerFullDisk(t *testing.T) {
	checkFault(t, filepath.Join(testenv.Disk(t, "4k"), "x.tach"), func(*profiler.Session) error { return nil }, syscall.ENOSPC)
}
