//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/testenv"
)

// A fault of the file does not harm the program: Stop returns it, and the session has logged one warning.
func TestFaults(t *testing.T) {
	checkFault(t, filepath.Join(t.TempDir(), "x.tach"), os.Remove, os.ErrNotExist)
	checkFault(t, filepath.Join(t.TempDir(), "x.tach"), func(path string) error { return os.RemoveAll(filepath.Dir(path)) }, os.ErrNotExist)
	checkFault(t, "/dev/full", func(string) error { return nil }, syscall.ENOSPC)
}

func checkFault(t *testing.T, path string, fault func(path string) error, want error) {
	t.Helper()
	log := &testenv.Log{}
	s := profiler.Start(profiler.Output(path), profiler.Source(profiler.Portable), profiler.Compression(profiler.Uncompressed), profiler.Logger(log.Logger()))
	testenv.OK(t, fault(s.Path()))
	testenv.Await(func() bool { return s.Err() != nil || s.Stats().Samples >= 5 })
	err := s.Stop()
	testenv.Is(t, "Stop", err, want)
	testenv.Is(t, "Stop, beside Err", err, s.Err())
	testenv.Same(t, strings.Join(log.Lines(), "\n")+": warnings", len(log.Lines()), 1)
}
