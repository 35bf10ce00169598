//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// Source is the native source. The zero value is not ready for use; see New.
type Source struct {
	signal  int
	version string // of Go

	cfg      source.Config
	memory   mem.Mapping
	s        *shared
	ticker   *ticker
	drain    *drain
	image    *goruntime.Image
	table    *goruntime.FuncTable
	old      sigaction
	budget   *cost.Budget
	patience *cost.Patience
	noPoll   error // why it is not known which connections and files goroutines wait for

	quit, done chan struct{}
	rung, deaf chan struct{} // see listen
	listenG    atomic.Uint64 // the g of listen
	bell       *uint64       // a futex, 1: the handler has rung for the drain; see listen
	resting    atomic.Bool   // the drain waits for its next pass; who sets it to false is the drain
	mute       bool          // there can be no more ticks
	taken      int64         // how often the program had set the signal to ignored or default
	dropped    int64         // samples lost because of that
	broken     bool          // the drain has panicked
	warned     bool          // the warning about goroutines beyond maxTracked was given

	mu     sync.Mutex // guards counts and asked
	counts tachyon.Counts
	asked  []chan struct{} // of Look
	looks  looks
	began  time.Time // start of the ticks
	ended  time.Time // end of the ticks; zero: they go on
}

// New returns a source that is not started.
func New() *Source { return &Source{signal: defaultSignal, version: runtime.Version()} }

// Name returns "native".
func (*Source) Name() string { return "native" }

// Objects returns for which waits this version of Go says what a goroutine waits for: one of the
// values of tachyon.Session.Objects. farEndsUnknown is that of the session.
func (n *Source) Objects() (known, farEndsUnknown string) {
	l, err := goruntime.LayoutOf(n.version)
	if err != nil {
		return "", ""
	}
	if n.noPoll != nil {
		farEndsUnknown = n.noPoll.Error()
	}
	if !l.Semaphores {
		return tachyon.OnlyChannels, farEndsUnknown
	}
	return tachyon.AllObjects, farEndsUnknown
}

// CountsStops reports that samples say how often goroutines have stopped running.
func (*Source) CountsStops() bool { return true }

// busy is true while a source is started: the process has only one handler. It stays true while there is a remainder.
var busy atomic.Bool

// Start checks that the source can be trusted here and begins to sample.
func (n *Source) Start(cfg source.Config, out source.Out) (err error) {
	l, err := goruntime.LayoutOf(n.version)
	if err != nil {
		return err
	}
	if err := refuse(); err != nil {
		return err
	}
	if !busy.CompareAndSwap(false, true) && !takeOver() {
		return errors.New("another native source is running")
	}
	n.cfg = cfg
	done := make(chan struct{})
	own.Go(func() {
		defer close(done)
		defer own.Turn()()
		n.patience = cost.NewPatience(cost.CpuOfThread(), cfg.Fallback)
		if err = mem.UnlessFault(func() error { return n.start(l, out) }); err != nil {
			n.giveBack()
		}
	})
	<-done
	return err
}

// proven is what an earlier Start in this process has found and checked, with the layout l. It cannot change.
var proven struct {
	l           *goruntime.Layout
	allgs, allp goruntime.SliceAt
	sched       uintptr
	perSecond   uint64 // of the cycle counter
	polls       foundPolls
	noPoll      error // that of findPoll
}

// start does the work of Start, on a goroutine that is locked to its thread.
func (n *Source) start(l *goruntime.Layout, out source.Out) error {
	n.patience.Pause()
	if err := n.prepare(l); err != nil {
		return err
	}
	if proven.l != l {
		if err := n.verifyOffsets(l); err != nil {
			return err
		}
		proven.polls, proven.noPoll = n.findPoll(l)
	}
	if n.noPoll = proven.noPoll; n.noPoll != nil {
		n.s.waits.Poll = 0
	} else {
		n.s.pollAt = proven.polls.at
		for _, p := range proven.polls.known {
			n.s.addPoll(p)
		}
	}
	if err := n.verify(l); err != nil {
		return err
	}
	proven.l, proven.allgs, proven.allp, proven.sched = l, n.drain.roster.allgs, n.drain.roster.allp, n.s.sched
	n.patience.Pause()
	d := n.newDrain(l, n.cfg, out)
	d.roster, d.gs = n.drain.roster, n.drain.gs
	clear(d.gs)
	if err := d.roster.refresh(); err != nil {
		return err
	}
	begun := monotonicNow()
	d.roster.begin(begun)
	if err := d.roster.handOver(begun); err != nil {
		return err
	}
	n.drain = d
	n.quit, n.done = make(chan struct{}), make(chan struct{})
	n.rung, n.deaf = make(chan struct{}, 1), make(chan struct{})
	n.bell = new(uint64)
	n.s.bell = uintptr(unsafe.Pointer(n.bell))
	n.began = time.Now()
	first := n.begin(uint64(time.Second) / uint64(max(n.cfg.Rate, 1)))
	n.s.area = n.s.living * (n.s.now - begun) / 1000 // the first samples stand for the time since then
	d.threads.begin()
	d.account = newAccount(d.threads, n.ticker.tid, monitor(l, usesC(n.old), uintptr(mem.ReadWord(mem.Getg()+l.GM)), uintptr(n.ticker.m)), usesC(n.old), d.time(n.s.now))
	up := make(chan struct{})
	own.Go(func() { n.loop(up) })
	<-up // before another one begins: the runtime would run that one next, and this one after all others
	own.Go(n.listen)
	if err := n.ticker.arm(first); err != nil {
		n.endWaits()
		return err
	}
	return nil
}

// begin sets the tick's period and returns when the first is due.
func (n *Source) begin(period uint64) uint64 {
	s := n.s
	now := monotonicNow()
	s.asked, s.period, s.deadline, s.now, s.before = period, period, now+period, now, now
	s.others, s.measured, s.passing, s.ownUntil, s.passDue = 0, 0, 0, 0, ^uint64(0)
	s.forCost, s.running = 0, 0
	s.lastRan, s.awake, s.idle, s.forIdle, s.ran, s.hurry, s.asleep = now, uint64(idleAfter), 0, 0, 0, 0, 0
	readClock(s)
	if s.sched != 0 {
		s.living, s.area = s.count(), 0
	}
	s.news, s.wanted = 0, 0
	s.ticks, s.dropped, s.torn, s.sent, s.visits, s.visiting, s.answered, s.handling, s.lost = 0, 0, 0, 0, 0, 0, 0, 0, 0
	s.looks, s.looking, s.sweeping, s.ending = 0, 0, s.sweeps, 0
	n.budget = cost.NewBudget(n.cfg.Budget, n.cfg.Rate, n.clocks())
	n.limit()
	allot(s, n.budget.Quota)
	return s.deadline
}

func (n *Source) newDrain(l *goruntime.Layout, cfg source.Config, out source.Out) *drain {
	d := &drain{
		s:       n.s,
		l:       l,
		out:     out,
		cfg:     cfg,
		stacks:  newStacks(out, l, n.table, cfg.WaitFrames),
		threads: newThreads(n.s),
		estates: make(map[uint64]*estate),
		image:   n.image,
		ends:    newDescriptors(),
		labels:  &labelSets{s: n.s, sets: make(map[uintptr]labelSet)},
		system:  make(map[uint64]systemKind),
		created: make(map[uint64]creation),
		left:    make(map[uint64]goroutine),
	}
	d.objects = d.newObjects()
	if n.drain != nil {
		d.bias = n.drain.bias
		// The next drain takes over the pins, because the handler already uses them.
		d.labels = n.drain.labels
	}
	d.start = monotonicNow() - uint64(time.Since(cfg.Start))
	return d
}

// Stats returns the counts so far.
func (n *Source) Stats() tachyon.Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counts
}

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
