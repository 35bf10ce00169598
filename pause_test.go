package profiler

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
)

// If MaxPause is too short for any tick, the session takes no samples and logs one
// warning. Stop returns no error, and the file's metadata counts the refused ticks.
func TestMaxPause(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	log := &testenv.Log{}
	s, err := Open(Output(path), Logger(log.Logger()), MaxPause(time.Nanosecond))
	if err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); s.Stats().TicksRefused < 10 && time.Since(begin) < time.Minute; {
		time.Sleep(time.Millisecond)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if l := log.Lines(); len(l) != 1 || !strings.Contains(l[0], "part of the profile is missing") || !strings.Contains(l[0], "MaxPause allows 1ns") {
		t.Errorf("logged %q", l)
	}
	if n := count(t, path); n > 0 {
		t.Errorf("%d samples", n)
	}
	r, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m, err := r.Metadata()
	if err != nil || m.Session == nil || m.Session.TicksRefused < 10 || m.Session.Blind <= 0 {
		t.Errorf("%+v, %v", m.Session, err)
	}
}
