package portable

import (
	"fmt"
	"math"
	"runtime"
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
	var blind time.Duration // at the first sample
	r.onSample = func() {
		if len(r.samples) == 0 {
			blind = s.Progress().Blind
		}
	}
	err := s.Start(source.Config{Rate: 1000, Budget: 100, MaxPause: 10 * time.Millisecond, Start: time.Now(), Warn: func(err error) { warnings = append(warnings, err.Error()) }}, r)
	testenv.OK(t, err)
	waitFor(t, func() bool { return s.Progress().TicksRefused > 20 })
	testenv.Prints(t, "stops, ticks, dropped", "0 0 0", testenv.Pauses()-before, s.Progress().TicksReached, s.Progress().Dropped)
	testenv.Within(t, "blind", s.Progress().Blind, 1, time.Since(s.cfg.Start))
	end()
	waitFor(t, func() bool { return s.Progress().TicksReached > 0 })
	s.Stop()
	// The samples of the first look stand for all the time before it. Later ticks can be refused too: for a
	// moment of a garbage collection NumGoroutine counts all goroutines that have ended.
	first := r.samples[0]
	testenv.FailIf(t, blind <= 0 || first.Gap < blind || first.Gap != first.Time-s.began, "no looks for %v; %d samples, the first is %+v", blind, len(r.samples), first)
	testenv.Same(t, "warnings", len(warnings), 1)
	testenv.Has(t, "the warning", warnings[0], "goroutines would stop the program for more than ", "MaxPause allows 10ms")
}

// TestRefused has ticks at which no look is allowed. The buffer's memory is given back.
func TestRefused(t *testing.T) {
	s := New()
	s.cfg, s.out, s.limit.max = source.Config{Start: time.Now()}, newQuiet(), 1
	s.snapshot.init(s.out, true)
	s.buf = make([]byte, minBuffer)
	for range shrinkAfter {
		testenv.Within(t, "cost of a tick that is refused", s.tick(1, false), 0, time.Second)
	}
	testenv.Prints(t, "refused, reached, length of the buffer", fmt.Sprint(shrinkAfter, " 0 0"), s.Progress().TicksRefused, s.Progress().TicksReached, cap(s.buf))
}

// TestProbe estimates looks at many goroutines from the depths of their stacks, with bytes that take 5 µs. A number
// of goroutines is allowed if their stacks are short, and refused if they are deep. No text is longer than the
// estimate.
func TestProbe(t *testing.T) {
	const n = 300
	buf := make([]byte, 8<<20)
	for _, depth := range []int{0, 10, 20, 200} {
		l := newLimit(10 * time.Second)
		l.probe = func(n int) (int, float64) {
			text, perByte := probe(n)
			testenv.Within(t, "ns for a byte", perByte, math.SmallestNonzeroFloat64, math.MaxFloat64)
			return text, 5000
		}
		end := park(n, depth)
		e, refusal := l.allow(runtime.NumGoroutine(), 0)
		text := runtime.Stack(buf, true)
		end()
		least := n * min(depth, printedFrames) * frameText
		testenv.FailIf(t, e.text < max(text, least) || e.text > least+1_000_000 || e.pause != time.Duration(e.text)*5*time.Microsecond || (refusal != nil) != (e.pause > l.max), "depth %d: estimate of %v and %d bytes for %d; %v", depth, e.pause, e.text, text, refusal)
	}
}

const ms = time.Millisecond

// scripted has a limit of 10 ms whose probes estimate text bytes, each of which takes 10 ns to print.
type scripted struct {
	limit
	text, probes int
}

func newScripted(text int) *scripted {
	s := &scripted{limit: newLimit(10 * ms), text: text}
	s.probe = func(int) (int, float64) { s.probes++; return s.text, 10 }
	return s
}

// expect checks whether a look is allowed, what it is expected to take, and how often there was a probe so far.
func (s *scripted) expect(t *testing.T, what string, n int, now time.Duration, want bool, pause time.Duration, probes int) {
	t.Helper()
	if e, refusal := s.allow(n, now); (refusal == nil) != want || e.pause != pause || s.probes != probes {
		t.Errorf("%s: %d goroutines at %v: %v, expected to take %v, %d probes; want %v, %v, %d",
			what, n, now, refusal, e.pause, s.probes, want, pause, probes)
	}
}

// TestLimitRefuses has more to print than the bound allows. There is no look until a probe, once a second, finds less.
func TestLimitRefuses(t *testing.T) {
	s := newScripted(1_000_001)
	s.expect(t, "deep stacks", 200, 0, false, 10*ms+10, 1)
	s.expect(t, "no second probe yet", 200, retry-1, false, 200*leastCost, 1)
	s.expect(t, "still deep", 200, retry, false, 10*ms+10, 2)
	s.text = 1_000_000
	s.expect(t, "not so deep", 200, 2*retry, true, 10*ms, 3)
	s.looked(200, 5*ms, 500_000)
	s.expect(t, "after a look", 200, 2*retry, true, 5*ms, 3)
	s.expect(t, "twice as many", 400, 2*retry, true, 10*ms, 3)
	s.expect(t, "fewer", 10, 2*retry, true, 5*ms, 3)
	s.text = 100_000
	s.expect(t, "more than twice as many", 401, 2*retry, true, ms, 4)
	s.looked(400, 11*ms, 1_100_000)
	s.expect(t, "the stacks became deep", 400, 3*retry, false, 11*ms, 4)
	s.expect(t, "after 100 times as long", 400, 3*retry+1100*ms, true, ms, 5)
	s.looked(400, ms, 100_000)
	s.expect(t, "too many", 10_001, time.Hour, false, 10_001*leastCost, 5)
	s.expect(t, "far too many", math.MaxInt32, time.Hour, false, math.MaxInt32*leastCost, 5)
	s.expect(t, "and fewer again", 400, time.Hour, true, ms, 5)
	s.max = time.Hour
	testenv.Fails(t, "a million goroutines in an hour", testenv.Err(s.allow(1_000_000, time.Hour)), "MB of memory")
}

// TestLimitLearns has looks that take longer than their text explains. They count when none of eight was short. Then
// they take one percent of the time, until one is short.
func TestLimitLearns(t *testing.T) {
	s := newScripted(10_000)
	now, probes := time.Duration(0), 1
	s.expect(t, "at first", 15, now, true, ms/10, probes)
	s.text = 10_000_000 // probes estimate too much
	for range 7 {
		s.looked(15, 41*ms, 10_000)
		s.expect(t, "seven long ones", 15, now, true, ms/10, probes)
	}
	s.looked(15, ms/5, 10_000)
	for range 7 {
		s.looked(15, 41*ms, 10_000)
		s.expect(t, "seven of eight", 15, now, true, ms/5, probes)
	}
	s.looked(15, 50*ms, 10_000)
	s.expect(t, "eight", 15, now, false, 41*ms, probes)
	for range 7 {
		s.expect(t, "soon after", 15, now+4100*ms-1, false, 15*leastCost, probes)
		now, probes = now+4100*ms, probes+1
		s.expect(t, "another try", 15, now, true, ms/10, probes)
		s.looked(15, 50*ms, 10_000)
		if probes < 8 {
			s.expect(t, "it is long too", 15, now, false, 41*ms, probes)
		}
	}
	s.expect(t, "all are longer", 15, now, false, 50*ms, probes)
	s.expect(t, "another try", 15, now+5*time.Second, true, ms/10, probes+1)
	s.looked(15, ms, 10_000)
	s.expect(t, "a short one", 15, now+5*time.Second, true, ms, probes+1)
}

// TestBusyMachine has a machine on which a thread has no clock and other programs make three looks of four seem
// longer by 40 ms, and the rest of the fourth tick. The looks cost what the shortest ones take: there are as many as
// there is time for, or as the budget pays for on a quiet machine.
func TestBusyMachine(t *testing.T) {
	const procs, length = 2, time.Minute
	for _, tt := range []struct {
		n, text int
		print   time.Duration
		looks   int
	}{
		{15, 10_000, ms / 10, 1486},  // a minute has 60 s / 40.18 ms = 1493; the budget of 1.2 s would pay for more than 2900
		{1000, 500_000, 5 * ms, 106}, // 1.2 s / (5 * 2 + 0.2 + 4.92 / 4) ms
	} {
		s := newScripted(tt.text)
		p := newPacer(1000, 1, 0)
		p.random = func() float64 { return 0.5 }
		looks := 0
		for now := time.Duration(0); now < length; looks++ {
			e, refusal := s.allow(tt.n, now)
			testenv.StopIf(t, refusal != nil, "%d goroutines at %v: %v, %v", tt.n, now, refusal, e)
			printed, rest := tt.print, ms*8/100
			if looks%4 != 3 {
				printed += 40 * ms
			} else {
				rest += 40 * ms
			}
			now += printed + rest
			s.looked(tt.n, printed, tt.text)
			now += p.next(now, s.spent(tt.text, procs, printed, rest, false), float64(procs))
		}
		testenv.Same(t, fmt.Sprint("looks at ", tt.n), looks, tt.looks)
	}
	s := newScripted(1000)
	s.allow(15, 0)
	testenv.Same(t, "with a clock for the thread the tick cost", s.spent(1000, 2, 3*ms, ms, true), 7*ms+restart)
}

// TestCount has a moment at which the runtime counts goroutines that have ended too.
func TestCount(t *testing.T) {
	defer func() { numGoroutine = runtime.NumGoroutine }()
	s := New()
	s.limit.goroutines = 10
	answers := func(n ...int) { numGoroutine = func() (first int) { first, n = n[0], n[1:]; return first } }
	for _, c := range []struct {
		answers []int
		blind   int64
		want    int
	}{
		{[]int{20}, 0, 20},
		{[]int{50_000, 12}, 0, 12},
		{[]int{50_000, 60_000}, 0, 50_000}, // so many live
		{[]int{50_000}, 1, 50_000},         // looks have been refused already
	} {
		s.blindAt.Store(c.blind)
		answers(c.answers...)
		testenv.Same(t, c, s.count(), c.want)
	}
}
