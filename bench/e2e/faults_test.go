//go:build unix

package e2e

import (
	"errors"
	"os"
	"path/filepath"
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
	if err := s.Stop(); !errors.Is(err, want) || !errors.Is(err, s.Err()) {
		t.Errorf("Stop = %v, Err = %v", err, s.Err())
	}
	if l := log.Lines(); len(l) != 1 {
		t.Errorf("logged %q, want one warning", l)
	}
}
