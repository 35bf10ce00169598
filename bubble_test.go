package profiler

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/gotach/profiler/sampler"
)

// TestBubble starts a session within a synctest bubble. The session is refused before it
// makes a file or starts a goroutine.
func TestBubble(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	synctest.Test(t, func(t *testing.T) {
		if s, err := Open(Output(path)); !errors.Is(err, sampler.ErrBubble) {
			t.Errorf("Open: %v", err)
			s.Stop()
		}
		s := Start(Output(path))
		if err := s.Err(); !errors.Is(err, sampler.ErrBubble) {
			t.Errorf("Start: %v", err)
		}
		if err := s.Stop(); !errors.Is(err, sampler.ErrBubble) {
			t.Errorf("Stop: %v", err)
		}
	})
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
	s, err := Open(Output(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}
