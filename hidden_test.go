package profiler

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/hook"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

// slowSink makes Stop take long. While WriteBatch waits, the native source takes samples of the
// goroutine that waits in Stop. The portable source takes one after that.
type slowSink struct {
	sampler.Sink
	slow    atomic.Int64 // number of calls that wait
	waiting atomic.Bool
}

func (s *slowSink) WriteBatch(b []tachyon.Sample) (int, error) {
	if s.slow.Add(-1) >= 0 {
		s.waiting.Store(true)
		time.Sleep(50 * time.Millisecond)
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
	sources := []SourceKind{Portable}
	if runtime.GOOS == "linux" && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64") {
		sources = append(sources, Native)
	}
	for _, source := range sources {
		t.Setenv("PROFILE_SOURCE", string(source))
		for how, leaf := range map[string]string{"method": ".callsStop", "method value": ".callsStopValue", "other goroutine": own.Profiler} {
			t.Run(fmt.Sprint(source, " ", how), func(t *testing.T) { startAndStopAreHidden(t, how, leaf) })
		}
	}
}

func startAndStopAreHidden(t *testing.T, how, leaf string) {
	sink := new(slowSink)
	defer func() { hook.Sink = nil }()
	hook.Sink = func(s any) any { sink.Sink = s.(sampler.Sink); return sink }
	path := filepath.Join(t.TempDir(), "x.tach")
	s, err := callsOpen(Output(path), Budget(100), MaxPause(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	opened := time.Now()
	for enough := s.Stats().Samples + 100; s.Stats().Samples < enough && time.Since(opened) < time.Minute; {
		if _, err := callsOpen(Output(path)); err == nil {
			t.Fatal("a second session began")
		}
	}
	sink.slow.Store(3)
	testenv.Await(sink.waiting.Load)
	stopping := time.Now()
	switch how {
	case "method":
		err = callsStop(s)
	case "method value":
		err = callsStopValue(s.Stop)
	case "other goroutine":
		for range 100 { // some of them may be sampled before they run
			go s.Stop()
		}
		err = callsStop(s)
	}
	if err != nil {
		t.Fatal(err)
	}

	r, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var caller uint64           // id of the goroutine that calls Open
	leaves := map[string]int{}  // how many samples have which innermost function, without wait frames
	weights := map[uint64]int{} // µs by goroutine
	frames := r.Frames()
	for sample, err := range reader.Weighted(r) {
		if err != nil {
			t.Fatal(err)
		}
		weights[sample.Thread] += int(sample.Weight)
		inner := ""
		for _, id := range sample.Stack {
			f := frames[id]
			ours := strings.HasPrefix(f.Func, "github.com/gotach/profiler") && !strings.Contains(f.Func, "/testenv.")
			if ours && !strings.HasSuffix(f.File, "_test.go") {
				t.Fatalf("a sample has %s at %s:%d", f.Func, f.File, f.Line)
			}
			if inner == "" && (f.Func == own.Profiler || !strings.HasPrefix(f.Func, "[")) {
				inner = f.Func
			}
		}
		leaves[inner]++
		if strings.HasSuffix(inner, ".callsOpen") {
			caller = sample.Thread
		}
	}
	for _, want := range []string{".callsOpen", leaf} {
		n := 0
		for name, count := range leaves {
			if strings.HasSuffix(name, want) {
				n += count
			}
		}
		if n == 0 {
			t.Errorf("no sample has the innermost function %s: %v", want, leaves)
		}
	}
	if got, want := time.Duration(weights[caller])*time.Microsecond, stopping.Sub(opened); got < want-2*time.Millisecond {
		t.Errorf("samples of the caller stand for %v of %v", got, want)
	}
}
