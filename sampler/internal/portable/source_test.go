package portable

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
)

// TestSession runs a session in a bubble, in which a look takes no time. The ticks come at the rate, and nothing
// changes after Stop.
func TestSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const length = 100 * time.Millisecond
		r, s := newRecorder(), New()
		testenv.OK(t, s.Start(source.Config{Rate: 1000, Budget: 100, MaxPause: 10 * time.Millisecond, WaitFrames: true, Start: time.Now()}, r))
		time.Sleep(length)
		s.Stop()
		st, n := s.Stats(), len(r.samples)
		if st.TicksAsked != 101 || st.TicksReached < 94 || st.TicksReached > 108 || st.Cost != time.Duration(st.TicksReached)*restart ||
			st.Dropped != 0 || st.TicksRefused != 0 || int64(n) < 2*st.TicksReached {
			t.Errorf("%+v after %d samples", st, n)
		}
		last := make(map[uint64]time.Duration)
		for _, p := range r.samples {
			if before, ok := last[p.Goroutine]; ok && (p.Time <= before || p.Gap != p.Time-before) {
				t.Fatalf("goroutine %d at %v after %v, gap %v", p.Goroutine, p.Time, before, p.Gap)
			}
			last[p.Goroutine] = p.Time
		}
		if at := last[self()]; at != length {
			t.Errorf("the last look is at %v, Stop at %v", at, length)
		}
		time.Sleep(time.Second)
		if again := s.Stats(); again != st || len(r.samples) != n {
			t.Errorf("Stats changes after Stop from %+v to %+v", st, again)
		}
	})
}

// TestWholeSession runs a session whose budget allows only one look. The samples must cover the
// session from its start to its end.
func TestWholeSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := newRecorder(), New()
		testenv.OK(t, s.Start(source.Config{Rate: 1000, Budget: 0.001, MaxPause: 10 * time.Millisecond, Start: time.Now()}, r))
		time.Sleep(time.Second)
		s.Stop()
		var times []time.Duration // times of looks
		for _, sample := range r.samples {
			times = append(times, sample.Time)
		}
		if times = slices.Compact(times); !slices.Equal(times, []time.Duration{0, time.Second}) {
			t.Errorf("looks at %v in a session of a second", times)
		}
	})
}

// TestBrokenSink has an Out that panics. The session must end with an error.
func TestBrokenSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := newRecorder(), New()
		r.onSample = func() { panic("the sink is broken") }
		testenv.OK(t, s.Start(source.Config{Rate: 1000, Budget: 100, MaxPause: 10 * time.Millisecond, Start: time.Now()}, r))
		synctest.Wait()
		if r.failed == nil || !strings.Contains(r.failed.Error(), "the sink is broken") {
			t.Error(r.failed)
		}
		s.Stop()
	})
}

// TestBuffer starts with a buffer that is too small. Goroutines that do not fit are counted as
// dropped, and the buffer grows for the next tick. It shrinks when it is not needed any more.
func TestBuffer(t *testing.T) {
	const n = 500
	waitFor(t, func() bool { return runtime.NumGoroutine() == 2 }) // the goroutines of other tests have ended
	end := park(n, 0)
	r := newRecorder()
	s := New()
	s.cfg, s.out = source.Config{Start: time.Now()}, r
	s.limit = newLimit(time.Minute)
	s.snapshot.init(r, true)
	s.buf = make([]byte, 10_000)
	alive := runtime.NumGoroutine()
	s.tick(1, false)
	if got := len(r.samples); got < 10 || got+int(s.dropped.Load()) != alive-1 {
		t.Errorf("%d samples and %d dropped of %d goroutines", got, s.dropped.Load(), alive)
	}
	if want := alive * perGoroutine; len(s.buf) != want {
		t.Errorf("the buffer is %d bytes, want %d", len(s.buf), want)
	}
	r.samples = nil
	s.dropped.Store(0)
	s.tick(1, false)
	if len(r.samples) != alive-1 || s.dropped.Load() != 0 || len(r.gone) != 0 {
		t.Errorf("%d samples and %d dropped of %d goroutines", len(r.samples), s.dropped.Load(), alive)
	}
	end()
	waitFor(t, func() bool { return runtime.NumGoroutine() == alive-n })
	for range shrinkAfter {
		s.resize(1000)
	}
	if want := alive * perGoroutine / 4; len(s.buf) != want {
		t.Errorf("the buffer is %d bytes, want %d", len(s.buf), want)
	}
	s.buf = make([]byte, maxBuffer/2+1)
	s.resize(len(s.buf))
	s.resize(len(s.buf))
	if len(s.buf) != maxBuffer {
		t.Errorf("the buffer grew to %d bytes", len(s.buf))
	}
}
