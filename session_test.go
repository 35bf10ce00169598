package profiler

import (
	"bytes"
	"errors"
	"fmt"
	"math"
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
		_ = testenv.Must(Open(opts...)).Path() // it is not the session that runs
		for range 2 {
			testenv.Same(t, "Stats", s.Stats(), Stats{Source: "off"})
			testenv.Prints(t, "the session's results", "<nil> <nil>  []", s.Stop(), s.Err(), s.Path(), s.Files())
		}
		testenv.Empty(t, ".")
		testenv.SameList(t, "logged", log.Lines(), nil)
	}
	t.Setenv("PROFILE_SOURCE", "portable")
	t.Setenv("PROFILE_RATE", "")
	s := testenv.Must(Open(Source(Off), Output("x.tach")))
	testenv.OK(t, s.Stop())
	testenv.Within(t, "samples, as PROFILE_SOURCE overrides Source(Off)", testenv.Count(t, reader.Open, "x.tach"), 1, math.MaxInt)
}

func TestSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	log := &testenv.Log{}
	s := testenv.Must(Open(Output(path), Service("shop", "1.2"), Logger(log.Logger())))
	testenv.Same(t, "Path", s.Path(), path)
	awaitSamples(s, 1)
	testenv.OK(t, s.Stop())
	testenv.Within(t, "samples", testenv.Count(t, reader.Open, path), 1, math.MaxInt)
	testenv.SameList(t, "logged", log.Lines(), nil)
	m := testenv.Metadata(t, reader.Open, path)
	d := m.Session
	testenv.Prints(t, "session metadata", fmt.Sprint(os.Getpid(), " ", runtime.Version(), " portable 1000 shop 1.2 "), d.PID, d.GoVersion, d.Source, d.Rate, d.Service, d.ServiceVersion, d.Error)
	testenv.FailIf(t, d.Program == "" || d.CPUs <= 0 || d.CPUs > float64(runtime.NumCPU()) || d.TicksReached == 0 || d.Samples == 0 || d.Duration <= 0 || d.RateReached == 0 || d.Module == "" || d.Host == "" ||
		len(m.Goroutines) == 0 || runtime.GOOS == "linux" && d.BuildID == "", "session metadata: %+v", d)
	want := Stats{
		Source: "portable", Duration: d.Duration, Samples: d.Samples, Dropped: d.Dropped, Unwritten: d.Unwritten,
		TicksAsked: d.TicksAsked, TicksReached: d.TicksReached, TicksForBudget: d.TicksForBudget, TicksIdle: d.TicksIdle, TicksRefused: d.TicksRefused,
		Cost: d.Cost, Throttled: d.Throttled, SignalTaken: d.SignalTaken,
	}
	st := s.Stats()
	testenv.FailIf(t, st != want || st.TicksAsked == 0 || st.Cost == 0, "%+v, in the file %+v", st, want)
}

// A session within a synctest bubble is refused before it makes a file or starts a goroutine.
func TestBubble(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := Start(Output(filepath.Join(dir, "x.tach")), Logger((&testenv.Log{}).Logger()))
		testenv.Is(t, "Start", s.Err(), sampler.ErrBubble)
		testenv.Same(t, "Stop", s.Stop(), s.Err())
	})
	testenv.Empty(t, dir)
}

// If MaxPause is too short for any tick, the session takes no samples and logs one
// warning. Stop returns no error, and the file's metadata counts the refused ticks.
func TestMaxPause(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	log := &testenv.Log{}
	s := testenv.Must(Open(Output(path), Logger(log.Logger()), MaxPause(time.Nanosecond)))
	testenv.Await(func() bool { return s.Stats().TicksRefused >= 3 })
	testenv.OK(t, s.Stop())
	testenv.Same(t, "lines of the log", len(log.Lines()), 1)
	testenv.Has(t, "the log", log.Lines()[0], "part of the profile is missing", "MaxPause allows 1ns")
	testenv.Same(t, "samples", testenv.Count(t, reader.Open, path), 0)
	d := testenv.Metadata(t, reader.Open, path).Session
	testenv.Within(t, "refused", d.TicksRefused, 3, math.MaxInt)
	testenv.Same(t, "blind for some time", d.Blind > 0, true)
}

func TestTwoSessions(t *testing.T) {
	log := &testenv.Log{}
	s := Start(Output(filepath.Join(t.TempDir(), "a.tach")), Logger(log.Logger()))
	awaitSamples(s, 1)
	b := filepath.Join(t.TempDir(), "b.tach")
	second := Start(Output(b), Logger(log.Logger()))
	testenv.Is(t, "the second session", second.Err(), ErrActive)
	testenv.Fails(t, "the second session", second.Stop(), "a.tach")
	testenv.Same(t, "Stop", second.Stop(), second.Err())
	testenv.Same(t, "lines of the log", len(log.Lines()), 1)
	testenv.Has(t, "the log", log.Lines()[0], "another session is running")
	testenv.Is(t, "the second session's file", testenv.Err(os.Stat(b)), os.ErrNotExist)
	testenv.OK(t, s.Stop())
	testenv.Within(t, "samples of the first session", testenv.Count(t, reader.Open, s.Path()), 1, math.MaxInt)
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
				testenv.Within(t, "samples", testenv.Count(t, reader.Open, s.Path()), 1, math.MaxInt)
			})
		}
		all.Wait()
	}
	var s *Session
	testenv.Prints(t, "results of a nil session", "<nil> <nil>  [] true", s.Stop(), s.Err(), s.Path(), s.Files(), s.Stats() == Stats{})
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
		testenv.Fails(t, name, s.Err(), filepath.Base(path))
		testenv.Same(t, name+": Stop", s.Stop(), s.Err())
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

// Start and Stop are not in the profile. Their time is time of the function that calls them.
func TestStartAndStopAreHidden(t *testing.T) {
	for _, source := range []SourceKind{Portable, Native} {
		if source == Native && (runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64") {
			continue
		}
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
	output := Output(path) // not while the session runs: samples may have it
	s := testenv.Must(callsOpen(output, Rate(970), Budget(100), MaxPause(time.Minute)))
	for enough := s.Stats().Samples + 50; !sink.waiting.Load(); {
		testenv.StopIf(t, testenv.Err(callsOpen(output)) == nil, "a second session began")
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

	r := testenv.Closes(t, testenv.Must(reader.Open(path)))
	leaves := map[string]int{} // how many samples have which innermost function, without wait frames
	frames := r.Frames()
	for sample := range testenv.All(t, r.Samples()) {
		inner := ""
		for _, id := range sample.Stack {
			f := frames[id]
			ours := strings.HasPrefix(f.Func, "github.com/gotach/profiler") && !strings.Contains(f.Func, "/testenv.")
			testenv.StopIf(t, ours && !strings.HasSuffix(f.File, "_test.go"), "a sample has %s at %s:%d", f.Func, f.File, f.Line)
			if inner == "" && (f.Func == own.Profiler || !strings.HasPrefix(f.Func, "[")) {
				inner = f.Func[strings.LastIndexByte(f.Func, '.')+1:]
			}
		}
		leaves[inner]++
	}
	testenv.FailIf(t, leaves["callsOpen"] == 0 || leaves[leaf] == 0, "no sample has the innermost function callsOpen or %s: %v", leaf, leaves)
}
