package portable

import (
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
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

// TestTooMany has more goroutines than can be printed within the bound. The source must not stop
// the program even once, and must warn that there is no profile. Looks begin when there are fewer.
func TestTooMany(t *testing.T) {
	testenv.Long(t)
	end := park(11_000, 0)
	before := testenv.Pauses()
	r, s := newRecorder(), New()
	var warnings []string
	err := s.Start(source.Config{Rate: 1000, Budget: 100, Start: time.Now(), Warn: func(err error) { warnings = append(warnings, err.Error()) }}, r)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return s.Stats().TicksRefused > 20 })
	if got, st := testenv.Pauses()-before, s.Stats(); got > 0 || st.TicksReached != 0 || st.Blind <= 0 || st.Blind > time.Since(s.cfg.Start) || st.Dropped != 0 {
		t.Errorf("%d stops; %+v", got, st)
	}
	end()
	waitFor(t, func() bool { return s.Stats().TicksReached > 0 })
	s.Stop()
	// The samples of the first look stand for all the time before it.
	if st := s.Stats(); len(r.samples) == 0 || r.samples[0].Gap < st.Blind || r.samples[0].Gap != r.samples[0].Time-s.began {
		t.Errorf("%+v; %d samples, the first is %+v", st, len(r.samples), r.samples[:1])
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "goroutines would stop the program for more than ") || !strings.Contains(warnings[0], "MaxPause allows 10ms") {
		t.Errorf("warnings: %q", warnings)
	}
}

// TestRefused has ticks at which no look is allowed. The buffer's memory is given back.
func TestRefused(t *testing.T) {
	s := New()
	s.cfg, s.out, s.limit.max = source.Config{Start: time.Now()}, new(quiet), 1
	s.snapshot.init(s.out, true)
	for n := range int64(shrinkAfter) {
		if s.buf == nil {
			s.buf = make([]byte, minBuffer)
		}
		if cost := s.tick(1, false); cost < 0 || cost > time.Second || s.Stats().TicksRefused != n+1 || s.Stats().TicksReached != 0 {
			t.Fatalf("refused at a cost of %v: %+v", cost, s.Stats())
		}
	}
	if s.buf != nil {
		t.Errorf("a buffer of %d bytes although there are no looks", len(s.buf))
	}
}

// TestProbe estimates looks at many goroutines from the depths of their stacks, with frames that take a millisecond.
// A number of goroutines is allowed if their stacks are short, and refused if they are deep. No text is longer than
// the estimate.
func TestProbe(t *testing.T) {
	const n = 300
	buf := make([]byte, 8<<20)
	for _, depth := range []int{0, 10, 20, 200} {
		l := limit{max: 10 * time.Second, frame: time.Millisecond, wait: retry}
		end := park(n, depth)
		e, refusal := l.allow(runtime.NumGoroutine(), 0)
		text := runtime.Stack(buf, true)
		end()
		least := n * time.Duration(min(depth, printedFrames)) * l.frame
		if e.text < text || e.pause < least || e.pause > least+5*time.Second || (refusal != nil) != (e.pause > l.max) {
			t.Errorf("depth %d: estimate of %v and %d bytes for %d; %v", depth, e.pause, e.text, text, refusal)
		}
	}
}

// TestLimitLearns has looks of known cost. After some that take too long, the limit waits longer and longer before the next
// try. The cost of earlier looks is the estimate for the next one.
func TestLimitLearns(t *testing.T) {
	const ms = time.Millisecond
	var l limit
	fresh := func(bound time.Duration) { l = limit{max: bound, frame: time.Microsecond, wait: retry} }
	tries, now := 0, time.Duration(0)
	check := func(what string, n int, want bool) estimate {
		t.Helper()
		e, refusal := l.allow(n, now)
		if (refusal == nil) != want {
			t.Errorf("%s: %d goroutines: %v", what, n, refusal)
		}
		return e
	}
	for fresh(10 * ms); now < 10*time.Minute; now += 10 * ms {
		if _, refusal := l.allow(200, now); refusal == nil {
			tries++
			l.looked(200, now, 50*ms, 10_000, true)
		}
	}
	if tries < 8 || tries > 16 { // 1, 2, 4, 8, 16, 32 and then 60 s apart
		t.Errorf("%d looks of 50 ms in 10 minutes", tries)
	}
	l.looked(200, now, ms, 10_000, true)
	check("after a short look", 200, true)
	if e := check("after a short look", 400, true); e.pause != 2*ms || e.text != 20_000 {
		t.Errorf("twice as many goroutines: %+v", e)
	}
	l.looked(200, now, 8*ms, 10_000, true)
	l.looked(200, now, ms, 10_000, true)
	check("after a look of 8 ms and one of 1 ms", 300, false)
	for range forgetting {
		l.looked(200, now, ms, 10_000, true)
	}
	if e := check("long after a look of 8 ms", 200, true); e.pause < 3*ms || e.pause > 4*ms { // (8-1)/e + 1
		t.Errorf("long after a look of 8 ms: %+v", e)
	}
	check("within 10 ms", 20_000, false)
	check("within 10 ms", math.MaxInt32, false)
	fresh(time.Hour)
	if _, refusal := l.allow(1_000_000, now); refusal == nil || !strings.Contains(refusal.Error(), "MB of memory") {
		t.Errorf("a million goroutines in an hour: %v", refusal)
	}
	// With few goroutines, one long look has another cause. allow prints stacks and measures that, so
	// the bound is one that a busy machine keeps.
	fresh(300 * ms)
	for range 8 {
		check("before eight long looks", 20, true)
		l.looked(20, now, time.Second, 10_000, true)
	}
	check("after eight long looks", 20, false)
	// Without a clock for the thread's CPU time, other programs may be the cause of one long look.
	fresh(10 * ms)
	l.looked(200, now, ms, 10_000, false)
	l.looked(200, now, time.Second, 10_000, false)
	check("after one interrupted look", 200, true)
	l.looked(200, now, time.Second, 10_000, false)
	check("after two long looks", 200, false)
}
