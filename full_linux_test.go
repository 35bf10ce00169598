package profiler

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// On a full disk the program goes on, one warning says why the profile ends,
// and Stop returns it.
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
		t.Errorf("want one warning of the full disk, got:\n%s", r.stderr)
	}

	log := &logBuffer{}
	s := Start(Output(path), Compression("none"), Budget(100), Logger(log.logger()))
	changingStacks()
	if err := s.Stop(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Stop returns %v", err)
	}
	if l := log.lines(); len(l) != 1 {
		t.Errorf("logged %q, want one warning", l)
	}
}
