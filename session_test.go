package profiler

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/session"
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
	if testenv.Count(t, reader.Open, "x.tach") == 0 {
		t.Error("PROFILE_SOURCE does not override Source(Off)")
	}
}

func TestSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	log := &testenv.Log{}
	s := testenv.Must(Open(Output(path), Service("shop", "1.2"), Logger(log.Logger())))
	testenv.Same(t, "Path", s.Path(), path)
	awaitSamples(s, 1)
	testenv.OK(t, s.Stop())
	if n := testenv.Count(t, reader.Open, path); n == 0 {
		t.Error("no samples")
	}
	testenv.SameList(t, "logged", log.Lines(), nil)
	m := testenv.Metadata(t, reader.Open, path)
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

// A session within a synctest bubble is refused before it makes a file or starts a goroutine.
func TestBubble(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := Start(Output(filepath.Join(dir, "x.tach")), Logger((&testenv.Log{}).Logger()))
		if s.Err() == nil || !errors.Is(s.Err(), sampler.ErrBubble) || s.Stop() != s.Err() {
			t.Errorf("Start: %v, Stop: %v", s.Err(), s.Stop())
		}
	})
	testenv.Same(t, "files", len(testenv.Must(os.ReadDir(dir))), 0)
}

// If MaxPause is too short for any tick, the session takes no samples and logs one
// warning. Stop returns no error, and the file's metadata counts the refused ticks.
func TestMaxPause(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	log := &testenv.Log{}
	s := testenv.Must(Open(Output(path), Logger(log.Logger()), MaxPause(time.Nanosecond)))
	testenv.Await(func() bool { return s.Stats().TicksRefused >= 3 })
	testenv.OK(t, s.Stop())
	if l := log.Lines(); len(l) != 1 || !strings.Contains(l[0], "part of the profile is missing") || !strings.Contains(l[0], "MaxPause allows 1ns") {
		t.Errorf("logged %q", l)
	}
	if d := testenv.Metadata(t, reader.Open, path).Session; testenv.Count(t, reader.Open, path) > 0 || d.TicksRefused < 3 || d.Blind <= 0 {
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
	testenv.Is(t, "the second session's file", testenv.Err(os.Stat(b)), os.ErrNotExist)
	if err := s.Stop(); err != nil || testenv.Count(t, reader.Open, s.Path()) == 0 {
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
				testenv.Same(t, "Stop", errors.Join(s.Stop(), s.Err()), nil)
				if testenv.Count(t, reader.Open, s.Path()) == 0 {
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
		testenv.Same(t, fmt.Sprintf("%s: lines of %q", name, log.Lines()), len(log.Lines()), 1)
	}
	testenv.OK(t, Start(Output(filepath.Join(dir, "x.tach"))).Stop())
}

// slowSink makes Stop take long: one call of WriteBatch waits until a goroutine is in Stop. Meanwhile the
// native source takes samples of it. The portable source takes one after that.
type slowSink struct {
	sampler.Sink
	slow, waiting atomic.Bool
}

func (s *slowSink) WriteBatch(b []tachyon.Sample) (int, error) {
	if s.slow.CompareAndSwap(true, false) {
		s.waiting.Store(true)
		testenv.Await(func() bool {
			all := make([]byte, 1<<20)
			return bytes.Contains(all[:runtime.Stack(all, true)], []byte("/sampler.(*Sampler).Stop("))
		})
		for range 50 { // as often as this goroutine, the thread of the ticks wakes up too
			time.Sleep(time.Millisecond)
		}
	}
	return s.Sink.WriteBatch(b)
}

//go:noinline
func callsOpen(opts ...Option) (*Session, error) {
	s, err := Open(opts...)
	runtime.KeepAlive(opts)
	return s, err
}

//go:noinline
func callsStop(s *Session) error {
	err := s.Stop()
	runtime.KeepAlive(s)
	return err
}

//go:noinline
func callsStopValue(stop func() error) error {
	err := stop()
	runtime.KeepAlive(stop)
	return err
}

// sources returns the sources of this system.
func sources() []SourceKind {
	if runtime.GOOS == "linux" && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64") {
		return []SourceKind{Portable, Native}
	}
	return []SourceKind{Portable}
}

// Start and Stop are not in the profile. Their time is time of the function that calls them.
func TestStartAndStopAreHidden(t *testing.T) {
	for _, source := range sources() {
		t.Setenv("PROFILE_SOURCE", string(source))
		for how, leaf := range map[string]string{"method": "callsStop", "method value": "callsStopValue", "other goroutine": own.Profiler} {
			t.Run(fmt.Sprint(source, " ", how), func(t *testing.T) { startAndStopAreHidden(t, how, leaf) })
		}
	}
}

func startAndStopAreHidden(t *testing.T, how, leaf string) {
	sink := new(slowSink)
	defer func() { session.WrapSink = nil }()
	session.WrapSink = func(s sampler.Sink) sampler.Sink { sink.Sink = s; return sink }
	path := filepath.Join(t.TempDir(), "x.tach")
	s := testenv.Must(callsOpen(Output(path), Budget(100), MaxPause(time.Minute)))
	for enough := s.Stats().Samples + 100; !sink.waiting.Load(); {
		if _, err := callsOpen(Output(path)); err == nil {
			t.Fatal("a second session began")
		}
		if s.Stats().Samples >= enough {
			sink.slow.CompareAndSwap(false, !sink.waiting.Load())
		}
	}
	stop := callsStop
	switch how {
	case "method value":
		stop = func(s *Session) error { return callsStopValue(s.Stop) }
	case "other goroutine":
		for range 100 { // some of them may be sampled before they run
			go s.Stop()
		}
	}
	testenv.OK(t, stop(s))

	r := testenv.Must(reader.Open(path))
	defer r.Close()
	leaves := map[string]int{} // how many samples have which innermost function, without wait frames
	frames := r.Frames()
	for sample := range testenv.All(t, r.Samples()) {
		inner := ""
		for _, id := range sample.Stack {
			f := frames[id]
			ours := strings.HasPrefix(f.Func, "github.com/gotach/profiler") && !strings.Contains(f.Func, "/testenv.")
			if ours && !strings.HasSuffix(f.File, "_test.go") {
				t.Fatalf("a sample has %s at %s:%d", f.Func, f.File, f.Line)
			}
			if inner == "" && (f.Func == own.Profiler || !strings.HasPrefix(f.Func, "[")) {
				inner = f.Func[strings.LastIndexByte(f.Func, '.')+1:]
			}
		}
		leaves[inner]++
	}
	if leaves["callsOpen"] == 0 || leaves[leaf] == 0 {
		t.Errorf("no sample has the innermost function callsOpen or %s: %v", leaf, leaves)
	}
}
