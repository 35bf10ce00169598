package portable

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// The rules of the limit.
const (
	// leastCost is the least time that printing one goroutine takes. Where all
	// goroutines together are over the bound at this cost, there is no need to probe.
	leastCost = time.Microsecond
	// leastText is the text of a goroutine with a short stack.
	leastText = 256
	// frameText is the text of one frame: two lines, with a package path and a file's path.
	frameText = 200
	// printedFrames is how many frames of a stack runtime.Stack prints at most.
	printedFrames = 100
	// A refused look is considered again after retry. The wait doubles, up to maxRetry,
	// each time a look turns out longer than the bound.
	retry    = time.Second
	maxRetry = time.Minute
	// forgetting is about how many looks it takes to forget the cost of a long one.
	forgetting = 64
)

// limit decides whether the program may be stopped for a look.
//
// runtime.Stack prints every goroutine while the world is stopped. It goes on formatting
// when its buffer is full, so a small buffer does not make the stop shorter: a look is
// taken as a whole or not at all. Earlier looks tell what the next one will take. Where
// there were none, or of far fewer goroutines, the depths of the stacks tell, which
// runtime.GoroutineProfile collects. It stops the world for less than 0.2 ms with a
// million goroutines. It cannot replace the look, because its records have no goroutine ids.
//
// The limit does not foresee that many stacks become deep between two looks. One look is
// then longer than the bound, and the next is refused.
type limit struct {
	max   time.Duration // the bound
	frame time.Duration // what printing one frame takes on this machine

	// Of the looks so far: the goroutines of the last one, and what looks at so many
	// take. The cost rises at once and falls slowly.
	goroutines int
	cost, text float64    // ns, bytes
	last       [8]float64 // cost of each of the last looks alone, the latest first

	refusal error         // why there is no look now; nil if there is one
	again   time.Duration // when a refused look is considered again
	wait    time.Duration // from a look that was too long until then
}

// An estimate is what a look would take.
type estimate struct {
	pause time.Duration
	text  int
	least bool // the pause is that at least
}

func newLimit(bound time.Duration) limit {
	return limit{max: bound, frame: printFrame(), wait: retry}
}

// allow says if a look at n goroutines is within the bound, and why not: nil if it is.
func (l *limit) allow(n int, now time.Duration) (e estimate, refusal error) {
	e = estimate{pause: time.Duration(n) * leastCost, text: n * leastText, least: true}
	if err := l.check(n, e); err != nil {
		return e, err
	}
	if n <= 2*l.goroutines {
		// Some of the cost does not depend on n, such as that of goroutines long dead,
		// so fewer are not taken to cost less.
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

// check compares an estimate with what is allowed.
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

// looked learns from a look at n goroutines. exact says that the pause was measured in
// CPU time. Otherwise a look that other programs interrupted seems long, so only the
// shorter one of two looks in a row counts. Few goroutines cannot need so much time for
// printing, however deep their stacks are. A long look at them has another cause, such as a
// virtual machine that lost its processor. That counts only if it happens every time.
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

// fall follows a value up at once and down slowly.
func fall(old, now float64) float64 {
	if now > old {
		return now
	}
	return old + (now-old)/forgetting
}

// probe estimates a look at n goroutines by the depth of their stacks. The runtime
// collects those while the program runs.
func probe(n int, frame time.Duration) (e estimate) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	watch := startWatch()
	records := make([]runtime.StackRecord, n+n/8+16)
	got, ok := runtime.GoroutineProfile(records)
	if !ok { // they have become more meanwhile
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
	// Each goroutine also has a header and a creator. The time that this took includes
	// going through the goroutines that have ended, as the look does.
	return estimate{pause: watch.took() + time.Duration(frames+2*got)*frame, text: (frames + 2*got) * frameText}
}

// printFrame measures what printing one frame takes. It prints its own goroutine, for which
// the runtime stops nothing.
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
