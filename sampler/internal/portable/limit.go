package portable

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// The rules of the limit.
const (
	// leastCost is what printing one goroutine takes at the very least. Where even that
	// times the goroutines is over the bound, nothing else is tried.
	leastCost = time.Microsecond
	// leastText is the text of a goroutine with a short stack.
	leastText = 256
	// frameText is the text of one frame: two lines, with a package path and a file's path.
	frameText = 200
	// printedFrames is how many frames of a stack runtime.Stack prints at most.
	printedFrames = 100
	// A look that was refused is considered again after retry, and after up to
	// maxRetry where looks turned out too dear again and again.
	retry    = time.Second
	maxRetry = time.Minute
	// forgetting is over how many looks, about, the cost of a dear one is forgotten.
	forgetting = 64
)

// limit decides whether the program may be stopped for a look.
//
// runtime.Stack prints every goroutine while the world is stopped. It goes on formatting
// when its buffer is full, so a small buffer does not shorten that: a look is taken as a
// whole or not at all. What it will take is known from earlier looks. Where there were
// none, or of far fewer goroutines, runtime.GoroutineProfile says how deep the stacks
// are. That stops the world for less than a fifth of a millisecond at a million
// goroutines. It cannot replace the look, because its records do not say which goroutine
// they are of.
//
// All stacks of a program that become deep between two looks are not foreseen: one look
// is then longer than the bound, and no more are taken.
type limit struct {
	max   time.Duration // the bound
	frame time.Duration // what printing one frame takes on this machine

	// Of the looks so far: the goroutines of the last one, and what looks at so many
	// take. The cost rises at once and falls slowly.
	goroutines int
	cost, text float64 // ns, bytes
	before     float64 // cost of the last look alone

	refusal error         // why there was no look, or a look that should not have been
	again   time.Duration // when that is considered again
	wait    time.Duration // from a look that should not have been until then
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
		return fmt.Errorf("a look at %d goroutines would stop the program for %s %v, and %v is allowed", n, about, round(e.pause), l.max)
	case e.text > maxBuffer:
		return fmt.Errorf("a look at %d goroutines would take %s %d MB of memory, and %d MB is allowed", n, about, e.text>>20, maxBuffer>>20)
	}
	return nil
}

// looked takes what a look at n goroutines took. exact says that this was measured in
// CPU time; otherwise a look that was interrupted by other programs looks dear, so
// that it takes two to believe it.
func (l *limit) looked(n int, now, pause time.Duration, text int, exact bool) {
	cost := float64(pause)
	if !exact {
		cost, l.before = min(cost, max(l.before, 1)), cost
	}
	// Of more goroutines, or as many as half, the earlier looks' cost still says something.
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
	// A header and the creator come on top, and the time to go through all that were
	// ever there, which is part of what this took.
	return estimate{pause: watch.took() + time.Duration(frames+2*got)*frame, text: (frames + 2*got) * frameText}
}

// printFrame measures what printing one frame takes, on this goroutine's own stack,
// for which nothing is stopped.
func printFrame() time.Duration {
	const depth, rounds = 32, 5
	buf := make([]byte, 8<<10)
	var took [rounds]time.Duration
	for i := range took {
		took[i] = printDeep(depth, buf)
	}
	slices.Sort(took[:])
	return max(took[rounds/2]/depth, 1)
}

//go:noinline
func printDeep(depth int, buf []byte) time.Duration {
	if depth > 0 {
		return printDeep(depth-1, buf) + 0
	}
	begin := time.Now()
	runtime.Stack(buf, false)
	return time.Since(begin)
}

// round is for people.
func round(d time.Duration) time.Duration {
	if d > 10*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
