package profiler

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

func TestMain(m *testing.M) {
	// These tests do not depend on the source. The portable source works everywhere, and
	// it logs no warning when it is asked for by name.
	os.Setenv("PROFILE_SOURCE", "portable")
	testenv.MainWithoutLeaks(m)
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

// With Off there is no file, nothing is logged, and every method works. The operator's word counts before the code's.
func TestOff(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PROFILE_RATE", "fast") // causes a warning otherwise
	for source, opts := range map[string][]Option{
		"off": {Source(Native), Rate(0), Export("pprof", "")}, // errors otherwise
		"":    {Source(Off)},
	} {
		t.Setenv("PROFILE_SOURCE", source)
		log := &testenv.Log{}
		opts = append(opts, Logger(log.Logger()))
		s := Start(opts...)
		if other, err := Open(opts...); err != nil || other == nil { // it is not the session that runs
			t.Errorf("Open: %v, %v", other, err)
		}
		for range 2 {
			if st := s.Stats(); st != (Stats{Source: "off"}) || s.Err() != nil || s.Path() != "" || s.Files() != nil || s.Stop() != nil {
				t.Errorf("%+v, %v, %q, %v, %v", st, s.Err(), s.Path(), s.Files(), s.Stop())
			}
		}
		if made, _ := filepath.Glob("*"); len(made) > 0 || len(log.Lines()) > 0 {
			t.Errorf("made %v, logged %q", made, log.Lines())
		}
	}
	t.Setenv("PROFILE_SOURCE", "portable")
	t.Setenv("PROFILE_RATE", "")
	s := testenv.Must(Open(Source(Off), Output("x.tach")))
	testenv.OK(t, s.Stop())
	if count(t, "x.tach") == 0 {
		t.Error("PROFILE_SOURCE does not override Source(Off)")
	}
}

func TestSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	log := &testenv.Log{}
	s := testenv.Must(Open(Output(path), Service("shop", "1.2"), Logger(log.Logger())))
	if s.Path() != path {
		t.Errorf("Path is %q", s.Path())
	}
	awaitSamples(s, 1)
	testenv.OK(t, s.Stop())
	if n := count(t, path); n == 0 {
		t.Error("no samples")
	}
	if l := log.Lines(); len(l) != 0 {
		t.Errorf("logged %q", l)
	}
	m := metadata(t, path)
	d := m.Session
	if d.Program == "" || d.PID != os.Getpid() || d.GoVersion != runtime.Version() || d.Source != "portable" || d.Rate != 1000 || d.CPUs <= 0 || d.CPUs > float64(runtime.NumCPU()) ||
		d.TicksReached == 0 || d.Samples == 0 || d.Duration <= 0 || d.RateReached == 0 || d.Module == "" || d.Host == "" || d.Service != "shop" || d.ServiceVersion != "1.2" || d.Error != "" {
		t.Errorf("session metadata: %+v", d)
	}
	want := Stats{
		Source: "portable", Duration: d.Duration, Samples: d.Samples, Dropped: d.Dropped, Unwritten: d.Unwritten,
		TicksAsked: d.TicksAsked, TicksReached: d.TicksReached, TicksForBudget: d.TicksForBudget, TicksIdle: d.TicksIdle, TicksRefused: d.TicksRefused,
		Cost: d.Cost, Throttled: d.Throttled, SignalTaken: d.SignalTaken,
	}
	if st := s.Stats(); st != want || st.TicksAsked == 0 || st.Cost == 0 {
		t.Errorf("%+v, in the file %+v", st, want)
	}
	if len(m.Goroutines) == 0 {
		t.Error("no goroutines in the metadata")
	}
	if runtime.GOOS == "linux" && d.BuildID == "" {
		t.Error("no build ID")
	}
}

// metadata returns what a finished file says about its session.
func metadata(t *testing.T, path string) *tachyon.Metadata {
	t.Helper()
	r := testenv.Must(reader.Open(path))
	defer r.Close()
	m, err := r.Metadata()
	if err != nil || m.Session == nil || r.Unfinished() {
		t.Fatal("no session in the metadata, or an unfinished file: ", err)
	}
	return m
}

// A session within a synctest bubble is refused before it makes a file or starts a goroutine.
func TestBubble(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := Start(Output(filepath.Join(dir, "x.tach")), Logger((&testenv.Log{}).Logger()))
		if s.Err() == nil || !errors.Is(s.Err(), sampler.ErrBubble) || s.Stop() != s.Err() {
			t.Errorf("Start: %v, Stop: %v", s.Err(), s.Stop())
		}
	})
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
}

// If MaxPause is too short for any tick, the session takes no samples and logs one
// warning. Stop returns no error, and the file's metadata counts the refused ticks.
func TestMaxPause(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	log := &testenv.Log{}
	s := testenv.Must(Open(Output(path), Logger(log.Logger()), MaxPause(time.Nanosecond)))
	testenv.Await(func() bool { return s.Stats().TicksRefused >= 3 })
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if l := log.Lines(); len(l) != 1 || !strings.Contains(l[0], "part of the profile is missing") || !strings.Contains(l[0], "MaxPause allows 1ns") {
		t.Errorf("logged %q", l)
	}
	if d := metadata(t, path).Session; count(t, path) > 0 || d.TicksRefused < 3 || d.Blind <= 0 {
		t.Errorf("%+v", d)
	}
}

func TestTwoSessions(t *testing.T) {
	log := &testenv.Log{}
	s := Start(Output(filepath.Join(t.TempDir(), "a.tach")), Logger(log.Logger()))
	awaitSamples(s, 1)
	b := filepath.Join(t.TempDir(), "b.tach")
	second := Start(Output(b), Logger(log.Logger()))
	if err := second.Err(); !errors.Is(err, ErrActive) || !strings.Contains(err.Error(), "a.tach") || second.Stop() != err {
		t.Errorf("the second session's error is %v, its Stop returns %v", err, second.Stop())
	}
	if l := log.Lines(); len(l) != 1 || !strings.Contains(l[0], "another session is running") {
		t.Errorf("logged %q, want one warning", l)
	}
	if _, err := os.Stat(b); err == nil {
		t.Error("the second session made a file")
	}
	if err := s.Stop(); err != nil || count(t, s.Path()) == 0 {
		t.Errorf("the first session's Stop returns %v", err)
	}
}

// Sessions can follow one another. Every call of Stop returns after the file is finished, from any goroutine.
func TestStop(t *testing.T) {
	for range 3 {
		s := Start(Output(filepath.Join(t.TempDir(), "x.tach")))
		awaitSamples(s, 1)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := errors.Join(s.Stop(), s.Err()); err != nil {
					t.Error(err)
				}
				if count(t, s.Path()) == 0 {
					t.Error("no samples")
				}
			})
		}
		all.Wait()
	}
	var s *Session
	if s.Stop() != nil || s.Err() != nil || s.Path() != "" || s.Files() != nil || s.Stats() != (Stats{}) {
		t.Error("a nil session is not idle")
	}
}

// A path that cannot be written causes one warning and an error that names the path. It does not prevent the next session.
func TestBadPath(t *testing.T) {
	dir := t.TempDir()
	file, locked := filepath.Join(dir, "file"), filepath.Join(dir, "locked")
	testenv.OK(t, errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(locked, 0o500)))
	if os.Geteuid() == 0 { // root can write into any directory except /proc
		locked = "/proc/self"
	}
	for name, path := range map[string]string{
		"missing directory":   filepath.Join(dir, "no", "x.tach"),
		"below a file":        filepath.Join(file, "x.tach"),
		"a directory":         dir,
		"name too long":       filepath.Join(dir, strings.Repeat("x", 300)),
		"null byte":           filepath.Join(dir, "a\x00b"),
		"directory read-only": filepath.Join(locked, "x.tach"),
	} {
		log := &testenv.Log{}
		s := Start(Output(path), Logger(log.Logger()))
		if err := s.Err(); err == nil || s.Stop() != err || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("%s: Err is %v, Stop returns %v", name, err, s.Stop())
		}
		if l := log.Lines(); len(l) != 1 {
			t.Errorf("%s: logged %q, want one warning", name, l)
		}
	}
	testenv.OK(t, Start(Output(filepath.Join(dir, "x.tach"))).Stop())
}
