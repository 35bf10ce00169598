package profiler

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/session"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

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
	for sample, err := range r.Samples() {
		testenv.OK(t, err)
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
