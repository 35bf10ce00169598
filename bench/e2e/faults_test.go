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
	removed := func(remove func(string) error) func(*profiler.Session) error {
		return func(s *profiler.Session) error { return remove(s.Path()) }
	}
	for name, c := range map[string]struct {
		path  string // "": a new file
		fault func(*profiler.Session) error
		want  error
	}{
		"file removed":      {"", removed(os.Remove), os.ErrNotExist},
		"directory removed": {"", removed(func(path string) error { return os.RemoveAll(filepath.Dir(path)) }), os.ErrNotExist},
		"disk full":         {"/dev/full", func(*profiler.Session) error { return nil }, syscall.ENOSPC},
	} {
		t.Run(name, func(t *testing.T) {
			path := c.path
			if path == "" {
				path = filepath.Join(t.TempDir(), "dir", "x.tach")
				testenv.OK(t, os.Mkdir(filepath.Dir(path), 0o700))
			}
			checkFault(t, path, c.fault, c.want)
		})
	}
}

func checkFault(t *testing.T, path string, fault func(*profiler.Session) error, want error) {
	log := &testenv.Log{}
	s := profiler.Start(profiler.Output(path), profiler.Source(profiler.Portable), profiler.Compression(profiler.Uncompressed), profiler.Logger(log.Logger()))
	testenv.OK(t, fault(s))
	testenv.Await(func() bool { return s.Err() != nil || s.Stats().Samples >= 5 })
	if err := s.Stop(); !errors.Is(err, want) || !errors.Is(err, s.Err()) {
		t.Errorf("Stop = %v, Err = %v", err, s.Err())
	}
	if l := log.Lines(); len(l) != 1 {
		t.Errorf("logged %q, want one warning", l)
	}
}
