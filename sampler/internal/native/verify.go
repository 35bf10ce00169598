//go:build linux && (amd64 || arm64)

package native

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// The self-check of Start. Before the source samples the program, it samples two goroutines of its
// own, a witness, and compares the samples with what public calls of the runtime say of them. Any
// difference is an error, and then the portable source takes over. Offsets that these samples do
// not need are checked in verify_offsets.go.

// fewTries is how often a check that waits for others looks at least: Start itself may have had no
// turn all the time.
const fewTries = 3

// checkSelf compares fields of the calling goroutine's g, m and P with their known values.
func checkSelf(l *goruntime.Layout) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := mem.Read(mem.Getg(), make([]uint64, 64)); err != nil {
		return err
	}
	for range 20 {
		// Try again: a goroutine that is preempted during the comparison may move to another P.
		if err = compareSelf(l); err == nil {
			return nil
		}
	}
	return err
}

//go:norace
//go:nocheckptr
func compareSelf(l *goruntime.Layout) error {
	g := mem.Getg()
	local := byte(0)
	here := uintptr(unsafe.Pointer(&local))
	lo, hi := uintptr(mem.ReadWord(g+l.GStackLo)), uintptr(mem.ReadWord(g+l.GStackHi))
	m := uintptr(mem.ReadWord(g + l.GM))
	p := uintptr(mem.ReadWord(m + l.MP))
	switch {
	case mem.ReadWord(g+l.GID) != currentGoid():
		return errors.New("a goroutine's id is not where it should be")
	case here < lo || here >= hi || hi-lo > 1<<30 || (hi-lo)&(hi-lo-1) != 0: // sizes are powers of two (stackalloc)
		return errors.New("a goroutine's stack is not where it should be")
	case uint32(mem.ReadWord(g+l.GStatus))&^goruntime.GScan != goruntime.GRunning:
		return errors.New("a goroutine's status is not where it should be")
	case uintptr(mem.ReadWord(m+l.MCurG)) != g:
		return errors.New("a thread's goroutine is not where it should be")
	case mem.ReadWord(uintptr(mem.ReadWord(m+l.MG0))+l.GM) != uint64(m):
		return errors.New("a thread's system goroutine is not where it should be")
	case mem.ReadWord(m+l.MProcID) != uint64(unix.Gettid()):
		return errors.New("a thread's id is not where it should be")
	case uintptr(mem.ReadWord(p+l.PM)) != m || uint32(mem.ReadWord(p+l.PStatus)) != goruntime.PRunning || uint32(mem.ReadWord(p+l.PID)) >= uint32(runtime.GOMAXPROCS(0)):
		return errors.New("a P is not where it should be")
	}
	return nil
}

// parked starts n waiting goroutines. It returns the addresses of their gs, and a function that
// ends them.
func parked(n int) (gs []uintptr, free func()) {
	stop, tell := make(chan struct{}), make(chan uintptr)
	for range n {
		own.Ordinary(func() {
			tell <- mem.Getg()
			<-stop
		})
		gs = append(gs, <-tell) // before another one begins: the runtime would run that one next, and this one after all others
	}
	return gs, func() { close(stop) }
}

// verify samples two goroutines with the whole source, a waiting one and its own, and compares
// their samples with their known stacks.
func (n *Source) verify(l *goruntime.Layout) error {
	w := &witness{stop: make(chan struct{}), up: make(chan struct{})}
	defer close(w.stop)
	w.runG, w.runID = mem.Getg(), currentGoid()
	own.Ordinary(w.waits)
	<-w.up
	if err := n.table.CheckInlining(w.waitPCs); err != nil {
		return err
	}
	check := &checker{witness: w}
	cfg := n.cfg
	cfg.WaitFrames = true
	d := n.newDrain(l, cfg, check)
	d.roster = n.drain.roster
	n.drain = d
	if err := d.roster.refresh(); err != nil {
		return err
	}
	for _, g := range []uintptr{w.waitG, w.runG} { // the roster may be full
		if err := d.roster.include(uint64(g)); err != nil {
			return err
		}
	}
	n.budget = &cost.Budget{Quota: 64 << 16}
	first := n.begin(uint64(time.Millisecond))
	n.s.visitLimit = ^uint64(0)
	// All entries are in no circle, and ticks check those for living goroutines (join), the
	// waiting one's first.
	n.s.met, n.s.probe = n.s.goroutines, uint64(d.roster.index[uint64(w.waitG)])
	for i := range n.s.met {
		leaveOut(n.s, i)
	}
	if err := n.sampleHere(d, check, first); err != nil {
		return err
	}
	// No tick may be under way while the source is made ready to sample.
	if !n.ticker.leave() {
		return fmt.Errorf("the thread of the ticks got no core for %v", stopLimit)
	}
	if err := n.refusal(); err != nil {
		return err
	}
	d.pass()
	return nil
}

// sampleHere begins the ticks, and drains the ring until both goroutines have been sampled. Its own
// goroutine is the running one.
//
//go:noinline
func (n *Source) sampleHere(d *drain, check *checker, first uint64) error {
	check.runIn, _ = functions()
	if err := n.ticker.arm(first); err != nil {
		return err
	}
	n.patience.Allow(cost.StartLimit / 2)
	for try := 0; ; try++ {
		n.patience.Pause()
		n.runFor2Ticks()
		readClock(n.s)
		d.pass()
		if check.waited && check.saw {
			return nil
		}
		refused := n.refusal()
		if refused == nil && (try < fewTries || n.patience.Over("") == nil) {
			continue
		}
		switch s := n.s; {
		case s.ticks == 0:
			return errors.New("the timer's signal does not arrive")
		case s.unable != 0:
			return fmt.Errorf("futex: %w", unix.Errno(s.unable))
		case refused != nil:
			return refused
		case check.err != nil:
			return check.err
		case !check.waited:
			return fmt.Errorf("a waiting goroutine was not found in %d ticks, %d visits, %d torn walks", s.ticks, s.visits, s.torn)
		case s.answered == 0:
			return errors.New("signals to running goroutines do not arrive")
		}
		return fmt.Errorf("a running goroutine's stack was not found in %d ticks, %d signals, %d answers", n.s.ticks, n.s.sent, n.s.answered)
	}
}

// runFor2Ticks keeps the calling goroutine running until there have been two more ticks, or for
// some milliseconds: the first tick finds the goroutine running, and the second one takes its
// record. If the goroutine just waited for the ticks, they would hardly find it running: on a busy
// machine a tick comes when a thread has stopped.
func (n *Source) runFor2Ticks() {
	ticks := uintptr(unsafe.Pointer(&n.s.ticks))
	before := mem.LoadAcquire(ticks)
	for begin := mem.Cycles(); mem.LoadAcquire(ticks) < before+2 && mem.Cycles()-begin < n.s.perMicro*4000; {
	}
}

// A witness is two goroutines whose stacks, ids and gs are known from public calls: one that waits,
// and one that runs and has created it.
type witness struct {
	stop, up      chan struct{}
	waitG, runG   uintptr
	waitID, runID uint64
	waitPCs       []uintptr
	waitIn, runIn calls
}

const witnessLabel = "gotach"

//go:noinline
func (w *witness) waits() {
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(witnessLabel, "verify")))
	w.waitG, w.waitID = mem.Getg(), currentGoid()
	w.waitHere()
}

//go:noinline
func (w *witness) waitHere() {
	w.inlined() // on a line other than the function's first, which a wrong read could give
}

// inlined is small enough for the compiler to inline.
func (w *witness) inlined() {
	w.block()
}

//go:noinline
func (w *witness) block() {
	w.waitIn, w.waitPCs = functions()
	w.up <- struct{}{}
	<-w.stop
}

// calls is a stack, innermost first: functions and lines.
type calls []tachyon.Frame

func (c calls) String() string {
	var s []string
	for _, f := range c {
		s = append(s, fmt.Sprintf("%s:%d", f.Func, f.Line))
	}
	return strings.Join(s, " < ")
}

// functions returns the caller's stack without runtime.goexit, and its return addresses as
// runtime.Callers gives them. The caller's own line is 0, because the caller goes on to another
// line.
func functions() (chain calls, pcs []uintptr) {
	pcs = make([]uintptr, 32)
	pcs = pcs[:runtime.Callers(2, pcs)]
	frames := runtime.CallersFrames(pcs)
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if f.Function != "runtime.goexit" {
			chain = append(chain, tachyon.Frame{Func: f.Function, Line: int32(f.Line)})
		}
	}
	chain[0].Line = 0
	return chain, pcs
}

// matches compares a stack with a chain that functions has returned. Line 0 matches any line.
func matches(stack, chain calls) bool {
	return slices.EqualFunc(stack, chain, func(f, want tachyon.Frame) bool {
		return f.Func == want.Func && (f.Line == want.Line || want.Line == 0)
	})
}

// A checker is the source.Out of the self-check: it gets the samples and compares them with the
// witness.
type checker struct {
	*witness
	frames      []tachyon.Frame
	waited, saw bool             // a sample of the waiting goroutine was right, and one of the running goroutine
	labelled    bool             // the waiting goroutine's labels were right
	told        source.Goroutine // what the source said of the waiting goroutine
	err         error            // the latest difference
}

func (c *checker) Frame(f tachyon.Frame) uint32 {
	c.frames = append(c.frames, f)
	return uint32(len(c.frames) - 1)
}

func (c *checker) Goroutine(g source.Goroutine) bool {
	if g.ID == c.waitID {
		c.told = g
	}
	return true
}

func (c *checker) Labels(id uint64, _ time.Duration, labels map[string]string) {
	if id == c.waitID {
		c.labelled = len(labels) == 1 && labels[witnessLabel] == "verify"
	}
}

func (c *checker) Sample(s *source.Sample) {
	if s.Goroutine != c.waitID && s.Goroutine != c.runID {
		return
	}
	var stack calls
	for _, id := range s.Stack {
		stack = append(stack, c.frames[id])
	}
	switch s.Goroutine {
	case c.waitID:
		switch {
		case len(stack) == 0 || stack[0].Func != "[chan receive]" || !matches(stack[1:], c.waitIn):
			c.err = fmt.Errorf("the stack of a waiting goroutine reads %q instead of %q", stack, c.waitIn)
		case c.told.Parent != c.runID || c.told.CreatedBy == "":
			c.err = fmt.Errorf("a goroutine created by goroutine %d reads as created by %q in %d", c.runID, c.told.CreatedBy, c.told.Parent)
		case !c.labelled:
			c.err = errors.New("a goroutine's labels are not where they should be")
		default:
			c.waited = true
		}
	case c.runID:
		// Functions that it calls may be on top.
		n := len(stack) - len(c.runIn)
		if s.Status&tachyon.HasGIL == 0 {
			break
		}
		if n < 0 || !matches(stack[n:], c.runIn) {
			c.err = fmt.Errorf("the stack of a running goroutine reads %q instead of %q", stack, c.runIn)
		} else {
			c.saw = true
		}
	}
}

func (*checker) Gone(uint64) {}
func (*checker) Counted()    {}

func (*checker) Batch(f func()) { f() }
func (*checker) Fail(error)     {}

// currentGoid returns the caller's goroutine id as the runtime prints it.
func currentGoid() uint64 {
	var buf [64]byte
	text := string(buf[:runtime.Stack(buf[:], false)])
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "goroutine "), " ")
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("native: runtime.Stack begins with %q", text))
	}
	return id
}
