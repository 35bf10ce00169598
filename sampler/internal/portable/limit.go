package portable

import (
	"fmt"
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
	// After a refusal the limit probes again after retry. That wait doubles, up to maxRetry,
	// each time a look takes longer than the bound.
	retry    = time.Second
	maxRetry = time.Minute
	// forgetting is about the number of looks after which the cost of a long one is forgotten.
	forgetting = 64
)

// limit decides whether the program may be stopped for a look.
//
// runtime.Stack prints every goroutine while the world is stopped. It goes on formatting when its
// buffer is full, so a small buffer does not make the stop shorter: a look is taken as a whole or
// not at all. The limit estimates the next look from earlier ones. If there were none, or only
// with far fewer goroutines, it estimates the look from the depths of all stacks, which
// runtime.GoroutineProfile collects. That stops the world for less than 0.2 ms with a million
// goroutines. It cannot replace the look, because its records have no goroutine ids.
//
// The limit does not foresee that many stacks become deep between two looks. One look is
// then longer than the bound, and the next is refused.
type limit struct {
	max   time.Duration // the bound
	frame time.Duration // time of printing one frame on this machine

	// goroutines is their number at the last look. cost and text are estimates for a look at
	// that many. They rise at once and fall slowly.
	goroutines int
	cost, text float64    // ns, bytes
	last       [8]float64 // cost of each of the last looks, ns, the latest first

	refusal error         // why there are no looks; nil if there are
	again   time.Duration // when the limit probes again after a refusal
	wait    time.Duration // from a refusal until again
}

// An estimate is the expected cost of a look.
type estimate struct {
	pause time.Duration
	text  int  // bytes
	least bool // these are lower bounds
}

func newLimit(bound time.Duration) limit {
	return limit{max: bound, frame: printFrame(), wait: retry}
}

// allow returns nil if a look at n goroutines is within the bound, else the reason why not. It
// also returns its estimate.
func (l *limit) allow(n int, now time.Duration) (e estimate, refusal error) {
	e = estimate{pause: time.Duration(n) * leastCost, text: n * leastText, least: true}
	if err := l.check(n, e); err != nil {
		return e, err
	}
	if n <= 2*l.goroutines {
		// A part of the cost does not depend on n, such as that of goroutines that have ended.
		// So fewer goroutines do not lower the estimate.
		scale := max(float64(n)/float64(l.goroutines), 1)
		e = estimate{pause: time.Duration(l.cost * scale), text: int(l.text * scale)}
		if err := l.check(n, e); err == nil {
			return e, nil
		} else if l.refusal == nil {
			l.refusal, l.again = err, now+l.wait
		}
	}
	if l.refusal != nil && now < l.again {
		return e, l.refusal
	}
	e = probe(n, l.frame)
	l.refusal = l.check(n, e)
	l.again = now + l.wait
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

// looked learns from a look at n goroutines. exact says that the pause was measured in CPU time.
// If not, a look that other programs interrupted seems long, so only the shorter one of two looks
// in a row counts. Few goroutines can be printed within the bound even if their stacks are deep. A
// long look at them has another cause, such as a virtual machine that lost its processor. It counts
// only if all of the last looks were long.
func (l *limit) looked(n int, now, pause time.Duration, text int, exact bool) {
	copy(l.last[1:], l.last[:])
	l.last[0] = float64(pause)
	believed := 1
	if time.Duration(n)*(printedFrames+2)*l.frame <= l.max {
		believed = len(l.last)
	} else if !exact {
		believed = 2
	}
	cost := max(slices.Min(l.last[:believed]), 1)
	// The cost of earlier looks is kept unless there were many more goroutines.
	if l.goroutines > 0 && n > l.goroutines/2 && l.cost <= float64(l.max) {
		scale := float64(n) / float64(l.goroutines)
		l.cost, l.text = l.cost*scale, l.text*scale
	} else {
		l.cost, l.text = 0, 0
	}
	l.cost = fall(l.cost, cost)
	l.text = fall(l.text, float64(text))
	l.goroutines = max(n, 1)
	if cost > float64(l.max) {
		l.refusal = l.check(n, estimate{pause: pause, text: text})
		l.again, l.wait = now+l.wait, min(2*l.wait, maxRetry)
	} else {
		l.refusal, l.wait = nil, retry
	}
}

// fall returns the new value of an estimate, which rises at once and falls slowly.
func fall(old, now float64) float64 {
	if now > old {
		return now
	}
	return old + (now-old)/forgetting
}

// probe estimates the cost of a look at n goroutines from the depths of their stacks. The runtime
// collects the stacks while the program runs.
func probe(n int, frame time.Duration) (e estimate) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	watch := startWatch()
	records := make([]runtime.StackRecord, n+n/8+16)
	got, ok := runtime.GoroutineProfile(records)
	if !ok { // there are more goroutines than records by now
		return estimate{pause: time.Duration(got) * printedFrames * frame, text: got * printedFrames * frameText}
	}
	frames := 0
	for i := range records[:got] {
		depth := len(records[i].Stack())
		if depth == len(records[i].Stack0) {
			depth = printedFrames
		}
		frames += depth
	}
	// Each goroutine also has a header and a creator. The probe's own time is added, because the
	// look too has to go through the goroutines that have ended.
	return estimate{pause: watch.took() + time.Duration(frames+2*got)*frame, text: (frames + 2*got) * frameText}
}

// printFrame measures the time of printing one frame. It prints only its own goroutine, so the
// world is not stopped.
func printFrame() time.Duration {
	const depth, rounds = 32, 9
	runtime.LockOSThread() // for the thread's clock
	defer runtime.UnlockOSThread()
	buf := make([]byte, 8<<10)
	var took [rounds]time.Duration
	for i := range took {
		took[i] = printDeep(depth, buf)
	}
	slices.Sort(took[:])
	return max(took[rounds/3]/depth, 1)
}

//go:noinline
func printDeep(depth int, buf []byte) time.Duration {
	if depth > 0 {
		return printDeep(depth-1, buf) + 0
	}
	watch := startWatch()
	runtime.Stack(buf, false)
	return watch.took()
}

// round makes a duration easier to read.
func round(d time.Duration) time.Duration {
	if d > 10*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
