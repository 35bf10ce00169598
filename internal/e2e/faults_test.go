//go:build unix

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/testenv"
)

// If the file is removed while it is written, the session has an error and logs one warning.
func TestRemoved(t *testing.T) {
	for name, remove := range map[string]func(path string) error{
		"file":      os.Remove,
		"directory": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "dir")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			log := &testenv.Log{}
			s := profiler.Start(profiler.Output(filepath.Join(dir, "x.tach")), profiler.Source(profiler.Portable), profiler.Logger(log.Logger()))
			if err := errors.Join(s.Err(), remove(s.Path())); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
			if err := s.Stop(); !errors.Is(err, os.ErrNotExist) || !errors.Is(err, s.Err()) {
				t.Errorf("Stop = %v, Err = %v", err, s.Err())
			}
			if l := log.Lines(); len(l) != 1 {
				t.Errorf("logged %q, want one warning", l)
			}
		})
	}
}

// A program that SIGSTOP stops for a while goes on later, and so does its profile.
func TestStopped(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.tach")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GOTACH_TEST_CHILD=full", "PROFILE_OUT="+out, "PROFILE_SOURCE=portable", "GOCOVERDIR="+t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Await(func() bool {
		fi, err := os.Stat(out)
		return err == nil && fi.Size() > 0
	})
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1500 * time.Millisecond)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("the program ends with %v and prints %q", err, &stderr)
	}
	if count(t, out) == 0 {
		t.Error("no samples")
	}
}
