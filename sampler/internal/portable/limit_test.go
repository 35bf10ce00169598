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

// park starts n goroutines that wait, each with that many frames of its own more.
// It returns a function that ends them.
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

// stops returns how often the program was stopped so far for about d or longer, but for
// garbage collection.
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

// started runs the source on its own and returns what it warned of.
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

// A program with more goroutines than can be printed within the bound is never
// stopped for it, not even once, and is told that it has no profile.
// GOTACH_GOROUTINES=1000000 for the nights.
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
		t.Errorf("%d stops of 10 ms and longer", got)
	}
	st := s.Stats()
	if st.TicksReached != 0 || st.Blind <= 0 || st.Blind > time.Since(s.cfg.Start) || st.Dropped != 0 {
		t.Errorf("%+v", st)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "goroutines would stop the program for more than ") || !strings.Contains(warnings[0], "MaxPause allows 10ms") {
		t.Errorf("warnings: %q", warnings)
	}
	if s.buf != nil {
		t.Errorf("a buffer of %d bytes for looks that are not taken", len(s.buf))
	}
}

// As many goroutines with short stacks are looked at, and with deep ones not.
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
	// The first look's samples stand for all the time before it, as Sample.Gap says.
	if first := r.samples[0]; first.Gap < st.Blind {
		t.Errorf("the first sample stands for %v, %v had no looks", first.Gap, st.Blind)
	}
}

// A probe is never far below what the look then takes.
func TestProbe(t *testing.T) {
	frame := printFrame()
	for _, depth := range []int{0, 10, 30, 200} {
		end := park(500, depth)
		buf := make([]byte, 8<<20)
		ok := false
		var e estimate
		var took time.Duration
		for range 20 { // by the CPU's clock, but other programs share its caches
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

// Looks that turn out too long are tried again ever more rarely, and what an earlier
// look took is known of the next.
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
		t.Errorf("twice as many: %+v, %v", e, refusal)
	}
	l.looked(200, now, 8*time.Millisecond, 10_000, true)
	l.looked(200, now, time.Millisecond, 10_000, true)
	if _, refusal := l.allow(300, now); refusal == nil {
		t.Error("a look that took 8 ms is forgotten after one that took 1 ms")
	}
	if _, refusal := l.allow(20_000, now); refusal == nil {
		t.Error("20,000 goroutines in 10 ms")
	}
	if _, refusal := l.allow(math.MaxInt32, now); refusal == nil {
		t.Error("two thousand million goroutines in 10 ms")
	}
	l = limit{max: time.Hour, frame: time.Microsecond, wait: retry}
	if _, refusal := l.allow(1_000_000, now); refusal == nil || !strings.Contains(refusal.Error(), "MB of memory") {
		t.Errorf("a million goroutines in an hour: %v", refusal)
	}
	// Few goroutines: one long look is not their doing.
	l = limit{max: 10 * time.Millisecond, frame: time.Microsecond, wait: retry}
	for i := range 8 {
		if _, refusal := l.allow(20, now); refusal != nil {
			t.Errorf("after %d long looks at few goroutines: %v", i, refusal)
		}
		l.looked(20, now, time.Second, 10_000, true)
	}
	if _, refusal := l.allow(20, now); refusal == nil {
		t.Error("eight long looks are not believed")
	}
	// Without a clock of the thread's CPU time one long look may be other programs' doing.
	l = limit{max: 10 * time.Millisecond, frame: time.Microsecond, wait: retry}
	l.looked(200, now, time.Millisecond, 10_000, false)
	l.looked(200, now, time.Second, 10_000, false)
	if _, refusal := l.allow(200, now); refusal != nil {
		t.Errorf("after one interrupted look: %v", refusal)
	}
	l.looked(200, now, time.Second, 10_000, false)
	if _, refusal := l.allow(200, now); refusal == nil {
		t.Error("two long looks are not believed")
	}
}
