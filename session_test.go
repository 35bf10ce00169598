package profiler

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
)

func TestMain(m *testing.M) {
	// These tests do not depend on the source. The portable source works everywhere, and
	// it logs no warning when it is asked for by name.
	os.Setenv("PROFILE_SOURCE", "portable")
	goleak.VerifyTestMain(m)
}

// count returns the number of samples in a file.
func count(t *testing.T, path string) int {
	t.Helper()
	return testenv.Count(t, reader.Open, path)
}

// awaitSamples waits until a session has taken n samples. The first tick can be late.
func awaitSamples(s *Session, n int64) {
	testenv.Await(func() bool { return s.Err() != nil || s.Stats().Samples >= n })
}

func TestSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	log := &testenv.Log{}
	s, err := Open(Output(path), Service("shop", "1.2"), Logger(log.Logger()))
	if err != nil {
		t.Fatal(err)
	}
	if s.Path() != path {
		t.Errorf("Path is %q", s.Path())
	}
	time.Sleep(100 * time.Millisecond)
	awaitSamples(s, 1)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := count(t, path); n == 0 {
		t.Error("no samples")
	}
	if l := log.Lines(); len(l) != 0 {
		t.Errorf("logged %q", l)
	}

	r, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m, err := r.Metadata()
	if err != nil || m.Session == nil {
		t.Fatal("no session in the metadata: ", err)
	}
	d := m.Session
	if d.Program != programName() || d.PID != os.Getpid() || d.GoVersion != runtime.Version() || d.Source != "portable" || d.Rate != 1000 ||
		d.TicksReached == 0 || d.Samples == 0 || d.Duration < 100*time.Millisecond || d.RateReached == 0 || d.Module == "" || d.Host != hostname() || d.Service != "shop" || d.ServiceVersion != "1.2" || d.Error != "" {
		t.Errorf("session metadata: %+v", d)
	}
	if len(m.Goroutines) == 0 {
		t.Error("no goroutines in the metadata")
	}
	if runtime.GOOS == "linux" && d.BuildID == "" {
		t.Error("no build ID")
	}
}

func TestTwoSessions(t *testing.T) {
	dir := t.TempDir()
	s := Start(Output(filepath.Join(dir, "a.tach")))
	defer s.Stop()
	awaitSamples(s, 1)
	log := &testenv.Log{}
	b := filepath.Join(dir, "b.tach")
	second := Start(Output(b), Logger(log.Logger()))
	if !errors.Is(second.Err(), ErrActive) || !strings.Contains(second.Err().Error(), "a.tach") {
		t.Errorf("the second session's error is %v", second.Err())
	}
	if l := log.Lines(); len(l) != 1 || !strings.Contains(l[0], "another session is running") {
		t.Errorf("logged %q, want one warning", l)
	}
	if err := second.Stop(); !errors.Is(err, ErrActive) {
		t.Errorf("its Stop returns %v", err)
	}
	if _, err := os.Stat(b); err == nil {
		t.Error("the second session made a file")
	}
	if err := s.Stop(); err != nil {
		t.Errorf("the first session's Stop returns %v", err)
	}
	if count(t, s.Path()) == 0 {
		t.Error("the first session has no samples")
	}
}

func TestStop(t *testing.T) {
	t.Run("twice", func(t *testing.T) {
		s := Start(Output(filepath.Join(t.TempDir(), "x.tach")))
		if err := errors.Join(s.Stop(), s.Stop(), s.Err()); err != nil {
			t.Fatal(err)
		}
		count(t, s.Path())
	})
	t.Run("another goroutine", func(t *testing.T) {
		s := Start(Output(filepath.Join(t.TempDir(), "x.tach")))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := s.Stop(); err != nil {
					t.Error(err)
				}
				count(t, s.Path()) // every call of Stop returns after the file is finished
			})
		}
		wg.Wait()
	})
	t.Run("start again", func(t *testing.T) {
		dir := t.TempDir()
		for _, name := range []string{"a", "b", "c"} {
			s := Start(Output(filepath.Join(dir, name)))
			awaitSamples(s, 1)
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			if count(t, s.Path()) == 0 {
				t.Errorf("session %s has no samples", name)
			}
		}
	})
	t.Run("nil", func(t *testing.T) {
		var s *Session
		if s.Stop() != nil || s.Err() != nil || s.Path() != "" {
			t.Error("a nil session is not idle")
		}
	})
}

// A path that cannot be written causes one warning and an error that names the path.
func TestBadPath(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	locked := filepath.Join(dir, "locked")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(locked, 0o500)); err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{
		"missing directory":   filepath.Join(dir, "no", "x.tach"),
		"below a file":        filepath.Join(file, "x.tach"),
		"a directory":         dir,
		"name too long":       filepath.Join(dir, strings.Repeat("x", 300)),
		"null byte":           filepath.Join(dir, "a\x00b"),
		"directory read-only": filepath.Join(locked, "x.tach"),
	}
	if os.Geteuid() == 0 { // root can write into any directory except /proc
		paths["directory read-only"] = "/proc/self/x.tach"
	}
	for name, path := range paths {
		t.Run(name, func(t *testing.T) {
			log := &testenv.Log{}
			s := Start(Output(path), Logger(log.Logger()))
			err := s.Err()
			if err == nil || !errors.Is(s.Stop(), err) {
				t.Fatalf("Err is %v, Stop returns %v", err, s.Stop())
			}
			if !strings.Contains(err.Error(), filepath.Base(path)) {
				t.Errorf("the error does not name the file: %v", err)
			}
			if l := log.Lines(); len(l) != 1 {
				t.Errorf("logged %q, want one warning", l)
			}
		})
	}
	// The failed sessions do not prevent the next one.
	s := Start(Output(filepath.Join(dir, "x.tach")))
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestExport(t *testing.T) {
	dir := t.TempDir()
	log := &testenv.Log{}
	s := Start(Output(filepath.Join(dir, "x.tach")), Logger(log.Logger()),
		Export("pprof", filepath.Join(dir, "%e.pb.gz")), Export("collapsed", filepath.Join(dir, "no", "x.txt")), Export("cpython315", filepath.Join(dir, "x.bin")))
	awaitSamples(s, 20) // a single sample may fall between the fixed times of CPython's layout
	err := s.Stop()
	if err == nil || !strings.Contains(err.Error(), "export to collapsed") {
		t.Errorf("the error is %v", err)
	}
	if l := log.Lines(); len(l) != 1 {
		t.Errorf("logged %q, want one warning", l)
	}
	// One failed export does not prevent the others.
	if count(t, filepath.Join(dir, "x.bin")) == 0 {
		t.Error("no samples in the export in CPython's layout")
	}
	if st, err := os.Stat(filepath.Join(dir, programName()+".pb.gz")); err != nil || st.Size() == 0 {
		t.Errorf("pprof export: %v", err)
	}
}
