package portable

import (
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/sampler/internal/source"
)

// park starts n waiting goroutines with stacks of depth frames more than the shortest. It returns a
// function that ends them.
func park(n, depth int) (end func()) {
	stop := make(chan bool)
	var all, ready sync.WaitGroup
	all.Add(n)
	ready.Add(n)
	for range n {
		go func() {
			defer all.Done()
			parkDeep(depth, &ready, stop)
		}()
	}
	ready.Wait()
	return func() {
		close(stop)
		all.Wait()
	}
}

//go:noinline
func parkDeep(depth int, ready *sync.WaitGroup, stop chan bool) {
	if depth > 0 {
		parkDeep(depth-1, ready, stop)
		return
	}
	ready.Done()
	<-stop
}

// stops returns how often the world was stopped so far for about d or longer, except for garbage
// collection.
func stops(d time.Duration) (n uint64) {
	s := []metrics.Sample{{Name: "/sched/pauses/total/other:seconds"}}
	metrics.Read(s)
	h := s[0].Value.Float64Histogram()
	for i, c := range h.Counts {
		if from := h.Buckets[i]; !math.IsInf(from, 0) && from >= d.Seconds() {
			n += c
		}
	}
	return n
}

// started runs the source until until returns true. It returns the source, its samples and its
// warnings.
func started(t *testing.T, max time.Duration, until func(s *Source) bool) (*Source, *recorder, []string) {
	t.Helper()
	r, s := newRecorder(), New()
	var mu sync.Mutex
	var warnings []string
	err := s.Start(source.Config{Rate: 1000, Budget: 100, Start: time.Now(), MaxPause: max, Warn: func(err error) {
		mu.Lock()
		warnings = append(warnings, err.Error())
		mu.Unlock()
	}}, r)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return until(s) })
	s.Stop()
	return s, r, warnings
}

// TestTooMany has more goroutines than can be printed within the bound. The source must not stop
// the program even once, and must warn that there is no profile. At night CI runs it with
// GOTACH_GOROUTINES=1000000.
func TestTooMany(t *testing.T) {
	n := 100_000
	if v, err := strconv.Atoi(os.Getenv("GOTACH_GOROUTINES")); err == nil {
		n = v
	}
	end := park(n, 0)
	defer end()
	before := stops(10 * time.Millisecond)
	s, r, warnings := started(t, 0, func(s *Source) bool { return s.Stats().TicksRefused > 100 })
	if len(r.samples) > 0 {
		t.Errorf("%d samples", len(r.samples))
	}
	if got := stops(10*time.Millisecond) - before; got > 0 {
		t.Errorf("%d stops of 10 ms or longer", got)
	}
	st := s.Stats()
	if st.TicksReached != 0 || st.Blind <= 0 || st.Blind > time.Since(s.cfg.Start) || st.Dropped != 0 {
		t.Errorf("%+v", st)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "goroutines would stop the program for more than ") || !strings.Contains(warnings[0], "MaxPause allows 10ms") {
		t.Errorf("warnings: %q", warnings)
	}
	if s.buf != nil {
		t.Errorf("a buffer of %d bytes although there are no looks", len(s.buf))
	}
}

// TestDepthCounts checks that a number of goroutines gets samples if their stacks are short, and
// none if they are deep.
func TestDepthCounts(t *testing.T) {
	const n = 300
	end := park(n, 0)
	started(t, 10*time.Millisecond, func(s *Source) bool { return s.Stats().TicksReached > 5 })
	end()
	end = park(n, 400)
	defer end()
	s, r, warnings := started(t, 10*time.Millisecond, func(s *Source) bool { return s.Stats().TicksRefused > 5 })
	if st := s.Stats(); st.TicksReached > 0 || len(r.samples) > 0 || st.Blind <= 0 || len(warnings) != 1 {
		t.Errorf("%+v, %d samples, warnings %q", st, len(r.samples), warnings)
	}
}

// Looks begin again when there are fewer goroutines.
func TestFewerAgain(t *testing.T) {
	end := park(50_000, 0)
	ended := false
	s, r, warnings := started(t, 10*time.Millisecond, func(s *Source) bool {
		st := s.Stats()
		if st.TicksRefused > 10 && !ended {
			ended = true
			end()
		}
		return st.TicksReached > 10
	})
	st := s.Stats()
	if len(warnings) != 1 || st.TicksRefused < 10 || st.Blind <= 0 || len(r.samples) < 10 {
		t.Errorf("%+v, %d samples, warnings %q", st, len(r.samples), warnings)
	}
	// The samples of the first look stand for all the time before it.
	if first := r.samples[0]; first.Gap < st.Blind {
		t.Errorf("the first sample stands for %v, want at least the %v without looks", first.Gap, st.Blind)
	}
}

// The estimate of a probe is never far below the cost of the look.
func TestProbe(t *testing.T) {
	frame := printFrame()
	for _, depth := range []int{0, 10, 30, 200} {
		end := park(500, depth)
		buf := make([]byte, 8<<20)
		ok := false
		var e estimate
		var took time.Duration
		for range 20 { // the CPU time varies, because other programs share the caches
			n := runtime.NumGoroutine()
			e = probe(n, frame)
			watch := startWatch()
			text := runtime.Stack(buf, true)
			took = watch.took()
			if e.text < text {
				t.Errorf("depth %d: estimate of %d bytes for %d", depth, e.text, text)
			}
			if ok = e.pause > took/2 && e.pause < 10*took; ok {
				break
			}
		}
		end()
		if !ok {
			t.Errorf("depth %d: estimate of %v, the look took %v", depth, e.pause, took)
		}
	}
}

// After looks that take too long, the limit waits longer and longer before the next try. The cost
// of earlier looks is the estimate for the next one.
func TestLimitLearns(t *testing.T) {
	l := limit{max: 10 * time.Millisecond, frame: time.Microsecond, wait: retry}
	tries, now := 0, time.Duration(0)
	for ; now < 10*time.Minute; now += 10 * time.Millisecond {
		if _, refusal := l.allow(200, now); refusal == nil {
			tries++
			l.looked(200, now, 50*time.Millisecond, 10_000, true)
		}
	}
	if tries < 8 || tries > 16 { // 1, 2, 4, 8, 16, 32 and then 60 s apart
		t.Errorf("%d looks of 50 ms in 10 minutes", tries)
	}
	l.looked(200, now, time.Millisecond, 10_000, true)
	if _, refusal := l.allow(200, now); refusal != nil {
		t.Errorf("after a short look: %v", refusal)
	}
	if e, refusal := l.allow(400, now); refusal != nil || e.pause != 2*time.Millisecond || e.text != 20_000 {
		t.Errorf("twice as many goroutines: %+v, %v", e, refusal)
	}
	l.looked(200, now, 8*time.Millisecond, 10_000, true)
	l.looked(200, now, time.Millisecond, 10_000, true)
	if _, refusal := l.allow(300, now); refusal == nil {
		t.Error("the cost of a look of 8 ms is forgotten after one of 1 ms")
	}
	if _, refusal := l.allow(20_000, now); refusal == nil {
		t.Error("a look at 20,000 goroutines within 10 ms is allowed")
	}
	if _, refusal := l.allow(math.MaxInt32, now); refusal == nil {
		t.Error("a look at two billion goroutines within 10 ms is allowed")
	}
	l = limit{max: time.Hour, frame: time.Microsecond, wait: retry}
	if _, refusal := l.allow(1_000_000, now); refusal == nil || !strings.Contains(refusal.Error(), "MB of memory") {
		t.Errorf("a million goroutines in an hour: %v", refusal)
	}
	// With few goroutines, one long look has another cause. allow prints stacks and measures that, so
	// the bound is one that a busy machine keeps.
	l = limit{max: 300 * time.Millisecond, frame: time.Microsecond, wait: retry}
	for i := range 8 {
		if _, refusal := l.allow(20, now); refusal != nil {
			t.Errorf("after %d long looks at few goroutines: %v", i, refusal)
		}
		l.looked(20, now, time.Second, 10_000, true)
	}
	if _, refusal := l.allow(20, now); refusal == nil {
		t.Error("a look is allowed after eight long ones")
	}
	// Without a clock for the thread's CPU time, other programs may be the cause of one long look.
	l = limit{max: 10 * time.Millisecond, frame: time.Microsecond, wait: retry}
	l.looked(200, now, time.Millisecond, 10_000, false)
	l.looked(200, now, time.Second, 10_000, false)
	if _, refusal := l.allow(200, now); refusal != nil {
		t.Errorf("after one interrupted look: %v", refusal)
	}
	l.looked(200, now, time.Second, 10_000, false)
	if _, refusal := l.allow(200, now); refusal == nil {
		t.Error("a look is allowed after two long ones")
	}
}
