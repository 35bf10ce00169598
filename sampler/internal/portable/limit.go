package portable

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
)

// The rules of the limit.
const (
	// leastCost is the least time that printing one goroutine takes. If the sum over all
	// goroutines at this cost is over the bound, there is no need to probe.
	leastCost = time.Microsecond
	// leastText is the size of the text of a goroutine with a short stack, in bytes.
	leastText = 256
	// frameText is the size of the text of one frame, in bytes: two lines, with a package path
	// and a file's path.
	frameText = 200
	// printedFrames is the largest number of frames of a stack that runtime.Stack prints.
	printedFrames = 100
	// The limit probes again a second after a probe refused a look. If looks took longer than the
	// bound, it waits for patience times as long as they took.
	retry    = time.Second
	patience = 100
)

// limit decides whether the program may be stopped for a look.
//
// runtime.Stack prints every goroutine while the world is stopped. It goes on formatting when its
// buffer is full, so a small buffer does not make the stop shorter: a look is taken as a whole or
// not at all. Besides some 0.1 ms, the time is in proportion to the text: 3 to 4 ns for a byte,
// whether goroutines are many or stacks are deep. So the next look is expected to take the size of
// the last text times the cost of a byte. If there was no look, or only with far fewer goroutines,
// or the last one was refused, a probe estimates the text.
//
// The limit does not foresee that many stacks become deep between two looks. One look is then
// longer than the bound, and the next is refused. What does not show in the text is learned from
// the time of eight looks: frames that are not printed, some 75 ns each, and goroutines that have
// ended, some 20 ns each.
type limit struct {
	max   time.Duration                           // the bound
	probe func(n int) (text int, perByte float64) // replaced in tests

	// goroutines is their number at the last look, text its size in bytes.
	goroutines, text int
	cost             shortest // of the last looks

	refusal error         // why there are no looks; nil if there are
	again   time.Duration // when the limit probes again after a refusal
}

// shortest has the time that each of the last looks took, in ns per byte of its text. The shortest
// is the cost: other programs can only make a look longer. A long look counts only if all of them
// are long.
type shortest [8]float64

func (s *shortest) add(took time.Duration, text int) {
	copy(s[1:], s[:])
	s[0] = float64(took) / float64(max(text, 1))
}

// of returns the cost of a look with so many bytes of text.
func (s *shortest) of(text int) time.Duration {
	return time.Duration(slices.Min(s[:]) * float64(text))
}

// fill has the cost of a byte before there are looks.
func (s *shortest) fill(perByte float64) {
	for i := range s {
		s[i] = perByte
	}
}

// An estimate is the expected cost of a look.
type estimate struct {
	pause time.Duration
	text  int  // bytes
	least bool // these are lower bounds
}

func newLimit(bound time.Duration) limit { return limit{max: bound, probe: probe} }

// allow returns nil if a look at n goroutines is within the bound, else the reason why not. It
// also returns its estimate.
func (l *limit) allow(n int, now time.Duration) (e estimate, refusal error) {
	e = estimate{pause: time.Duration(n) * leastCost, text: n * leastText, least: true}
	if err := l.check(n, e); err != nil {
		return e, err
	}
	if now < l.again {
		return e, l.refusal
	}
	wait, known := retry, n <= 2*l.goroutines
	if known { // fewer goroutines need not have less text
		e = estimate{text: int(float64(l.text) * max(float64(n)/float64(l.goroutines), 1))}
	}
	if known && l.refusal == nil {
		e.pause = l.cost.of(e.text)
		wait = patience * e.pause
	} else {
		text, perByte := l.probe(n)
		if known {
			text = min(text, e.text) // the probe's estimate is high
		}
		e = estimate{text: text, pause: time.Duration(float64(text) * perByte)}
		if l.goroutines == 0 {
			l.cost.fill(perByte)
		}
	}
	if l.refusal = l.check(n, e); l.refusal != nil {
		l.again = now + wait
	}
	return e, l.refusal
}

// check returns an error if an estimate is over the bound.
func (l *limit) check(n int, e estimate) error {
	about := "about"
	if e.least {
		about = "more than"
	}
	switch {
	case e.pause > l.max:
		return fmt.Errorf("a look at %d goroutines would stop the program for %s %v; MaxPause allows %v", n, about, round(e.pause), l.max)
	case e.text > maxBuffer:
		return fmt.Errorf("a look at %d goroutines would take %s %d MB of memory, and %d MB is allowed", n, about, e.text>>20, maxBuffer>>20)
	}
	return nil
}

// looked learns from a look at n goroutines.
func (l *limit) looked(n int, pause time.Duration, text int) {
	l.goroutines, l.text = max(n, 1), text
	l.cost.add(pause, text)
}

// spent returns the CPU time of the last tick. The time of printing its text counts once for every
// P, because all Ps are stopped. The rest counts once. The constant restart is added. exact says
// that the times are CPU time. If they are not, other programs make some ticks seem long. Then
// printing costs what the last looks say, and the rest no more than printing.
func (l *limit) spent(text, procs int, printed, rest time.Duration, exact bool) time.Duration {
	if !exact {
		printed = l.cost.of(text)
		rest = min(rest, printed)
	}
	return printed*time.Duration(procs) + rest + restart
}

// probe estimates the text of a look at n goroutines from the depths of all stacks, and measures
// what printing a byte costs. runtime.GoroutineProfile collects the stacks while the program runs:
// it stops the world for less than 0.2 ms with a million goroutines. It cannot replace the look,
// because its records have no goroutine ids.
func probe(n int) (text int, perByte float64) {
	perByte = printByte()
	records := make([]runtime.StackRecord, n+n/8+16)
	got, ok := runtime.GoroutineProfile(records)
	if !ok { // there are more goroutines than records by now
		return got * printedFrames * frameText, perByte
	}
	frames := 0
	for i := range records[:got] {
		depth := len(records[i].Stack())
		if depth == len(records[i].Stack0) {
			depth = printedFrames
		}
		frames += depth
	}
	return (frames + 2*got) * frameText, perByte // each goroutine also has a header and a creator
}

// printByte measures the time of printing one byte, in ns: the shortest of some prints, which are
// too short for other programs to interrupt all of them. It prints only its own goroutine, so the
// world is not stopped.
func printByte() float64 {
	const depth, rounds = 32, 9
	runtime.LockOSThread() // for the thread's clock
	defer runtime.UnlockOSThread()
	buf := make([]byte, 16<<10)
	perByte := math.Inf(1)
	for range rounds {
		perByte = min(perByte, printDeep(depth, buf))
	}
	return perByte
}

//go:noinline
func printDeep(depth int, buf []byte) float64 {
	if depth > 0 {
		return printDeep(depth-1, buf) + 0
	}
	watch := startWatch()
	n := runtime.Stack(buf, false)
	return float64(watch.took()) / float64(n)
}

// round makes a duration easier to read.
func round(d time.Duration) time.Duration {
	if d > 10*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

// The rules of pacing.
const (
	// jitter is the largest difference between a period and the configured one, as a share of
	// it. Without jitter, a program that does something every millisecond would always be
	// sampled at the same point.
	jitter = 0.06
	// window is the time for which unused budget can be saved up.
	window = time.Second
	// maxWait bounds the time between two ticks, whatever they cost: a tick during which the
	// machine was suspended seems to cost very much.
	maxWait = time.Minute
)

// pacer decides when the next tick is due: at the configured rate, or more slowly if the budget
// requires it.
//
// The wait after a tick must not depend on the cost of that tick. Stopping a program takes longer
// while it computes than while it sleeps. If the wait depended on the last tick, a tick in a
// computation would delay the next one, often into the phase after the computation, and that
// phase would get all the time since. With phases of some 40 ms this gave errors of ten percentage
// points. So the wait follows from the mean cost of many ticks, and the difference is balanced
// over a second. Only a debt of more than one second's budget is paid at once. There is no lowest
// rate: at a cost of half a second, one tick a second would be far above any budget.
type pacer struct {
	period time.Duration
	budget float64       // percent
	ticks  int           // so far
	mean   float64       // moving average of the cost of a tick, ns
	debt   time.Duration // CPU time over the budget; negative: unused budget, at most a window's
	last   time.Duration // when debt was computed
	due    time.Duration // when the last tick was due by the period alone
	random func() float64
}

// meanTicks is about the number of ticks in the moving average of the cost.
const meanTicks = 64

func newPacer(rate int, budget float64, now time.Duration) *pacer {
	return &pacer{
		period: time.Second / time.Duration(rate),
		budget: budget,
		last:   now,
		due:    now,
		random: rand.Float64,
	}
}

// next returns the wait until the next tick. cost is the CPU time of the tick that has ended at
// now. The process may use so many cores.
func (p *pacer) next(now, cost time.Duration, cores float64) time.Duration {
	share := p.budget / 100 * cores // allowed CPU time per wall-clock time
	p.debt += cost - time.Duration(float64(now-p.last)*share)
	p.debt = max(p.debt, -time.Duration(float64(window)*share))
	p.last = now

	// Periods count from the time when the last tick was due, so that delays do not add up. Ticks
	// that are late by more than a period are lost.
	p.due += time.Duration(float64(p.period) * (1 + jitter*(2*p.random()-1)))
	p.due = max(p.due, now)
	wait := p.due - now
	p.ticks++
	p.mean += (float64(cost) - p.mean) / float64(min(p.ticks, meanTicks))
	if share > 0 {
		allowance := float64(window) * share
		before := float64(p.debt-cost) / allowance // debt before this tick, in windows
		pause := p.mean / share * max(1+min(before, 1), 0) * (1 + jitter*(2*p.random()-1))
		wait = max(wait, time.Duration(pause))
		if owed := float64(p.debt) / allowance; owed > 1 {
			wait = max(wait, time.Duration((owed-1)*float64(window)))
		}
	}
	return min(wait, maxWait)
}
