package e2e

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/testenv"
)

// If the disk is full the program goes on. One warning gives the reason why the profile ends, and Stop
// returns it as its error.
func TestFullDisk(t *testing.T) {
	t.Run("tmpfs", func(t *testing.T) { testFull(t, filepath.Join(testenv.Disk(t, "4k"), "x.tach")) })
	t.Run("dev", func(t *testing.T) { testFull(t, "/dev/full") })
}

func testFull(t *testing.T, path string) {
	r := child(t, "full", path)
	if r.code != 0 || r.stdout != "done\n" {
		t.Errorf("the program exits with %d and prints %q", r.code, r.stdout)
	}
	if n := strings.Count(r.stderr, "level=WARN"); n != 1 || !strings.Contains(r.stderr, "no space left on device") {
		t.Errorf("want one warning about the full disk, got:\n%s", r.stderr)
	}

	log := &testenv.Log{}
	s := profiler.Start(profiler.Output(path), profiler.Source(profiler.Portable), profiler.Compression(profiler.Uncompressed), profiler.Budget(100), profiler.Logger(log.Logger()))
	changingStacks()
	if err := s.Stop(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Stop = %v, want ENOSPC", err)
	}
	if l := log.Lines(); len(l) != 1 {
		t.Errorf("logged %q, want one warning", l)
	}
}
