//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/deadlock"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// Source is the native source. The zero value is not ready for use; see New.
type Source struct {
	signal  int
	version string // of Go

	cfg      source.Config
	memory   mapping
	s        *shared
	ticker   *ticker
	drain    *drain
	image    *image
	table    *funcTable
	old      sigaction
	budget   *budget
	patience *patience

	quit, done chan struct{}
	rung, deaf chan struct{} // see listen
	mute       bool          // there can be no more ticks
	taken      int64         // how often the program had set the signal to ignored or default
	dropped    int64         // samples lost because of that
	broken     bool          // the drain has panicked
	warned     bool          // the warning about goroutines beyond maxTracked was given

	mu     sync.Mutex // guards counts
	counts tachyon.Counts
	began  time.Time // start of the ticks
	ended  time.Time // end of the ticks; zero: they go on
}

// New returns a source that is not started.
func New() *Source { return &Source{signal: defaultSignal, version: runtime.Version()} }

// Name returns "native".
func (*Source) Name() string { return "native" }

// Objects returns for which waits this version of Go says what a goroutine waits for: one of the
// values of tachyon.Session.Objects.
func (n *Source) Objects() string {
	switch l, err := layoutOf(n.version); {
	case err != nil:
		return ""
	case !l.semaphores:
		return tachyon.OnlyChannels
	}
	return tachyon.AllObjects
}

// busy is true while a source is started: the process has only one handler.
var busy atomic.Bool

// Start checks that the source can be trusted here and begins to sample.
func (n *Source) Start(cfg source.Config, out source.Out) (err error) {
	l, err := layoutOf(n.version)
	if err != nil {
		return err
	}
	if err := refuse(); err != nil {
		return err
	}
	if !busy.CompareAndSwap(false, true) {
		return errors.New("another native source is running")
	}
	defer func() {
		if err != nil {
			busy.Store(!n.release())
		}
	}()
	n.cfg, n.patience = cfg, newPatience(time.Now(), cfg.Fallback)
	err = unlessFault(func() error {
		if err := n.prepare(l); err != nil {
			return err
		}
		const usual = 15 * time.Millisecond // any further time is waiting for a core, at most two seconds
		var err error
		if n.patience.excuse(usual, func() { err = n.verifyOffsets(l) }); err != nil {
			return err
		}
		return n.verify(l)
	})
	if err != nil {
		return err
	}
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
	n.began = time.Now()
	first := n.begin(uint64(time.Second) / uint64(max(cfg.Rate, 1)))
	n.s.area = n.s.living * (n.s.now - begun) / 1000 // the first samples stand for the time since then
	d.account = newAccount(d.ledger, n.ticker.tid, usesC(n.old), d.time(n.s.now))
	up := make(chan struct{})
	own.Go(func() { n.loop(up) })
	own.Go(n.listen)
	<-up
	if err := n.ticker.arm(first); err != nil {
		n.endWaits()
		return err
	}
	return nil
}

// prepare finds the runtime's data and sets up shared memory, ticker, handler and timer.
// release undoes it.
func (n *Source) prepare(l *layout) error {
	if err := checkClock(); err != nil {
		return err
	}
	if err := checkSelf(l); err != nil {
		return err
	}
	img, err := findImage()
	if err != nil {
		return err
	}
	table, err := findFuncTable(img, l)
	if err != nil {
		return err
	}
	variables := table.modules[0].variables
	var known []uintptr
	var free func()
	n.patience.excuse(0, func() { known, free = parked(16) })
	allgs, err := findAllgs(variables, append(known, getg()), n.patience)
	free()
	if err != nil {
		return err
	}
	allp, err := findAllp(variables, l, n.patience)
	if err != nil {
		return err
	}
	if err := n.share(l); err != nil {
		return err
	}
	n.image, n.table = img, table
	table.publish(n.s)
	n.drain = n.newDrain(l, n.cfg, nil)
	n.drain.bias = uint64(img.bias)
	n.drain.roster = &roster{s: n.s, l: l, allgs: allgs, allp: allp}
	n.patience.excuse(0, func() { err = n.drain.roster.refresh() }) // bounded by maxTracked
	if err != nil {
		return err
	}
	n.s.allgs = uintptr(allgs)
	n.patience.excuse(0, func() { n.s.sched = findSched(variables, l, n.s, n.patience) })
	if n.ticker, err = startTicker(n.s, n.signal); err != nil {
		return err
	}
	n.s.tid, n.s.tickM = uint64(n.ticker.tid), n.ticker.m
	n.s.word = uint64(uintptr(unsafe.Pointer(&n.ticker.word)))
	if n.old, err = takeSignal(n.signal); err != nil {
		return err
	}
	n.memoryInUse(true)
	return n.ticker.createTimer(n.signal, n.s.tag)
}

// sessions counts sessions. The number is part of a session's signals, so that a late
// signal of an earlier session is recognised.
var sessions atomic.Uint64

// share sets up the memory that the handler works on.
func (n *Source) share(l *layout) error {
	sizes := []uintptr{
		unsafe.Sizeof(shared{}),
		ringWords * 8,
		maxChunks * 8,
		maxProcs * 8,
		maxProcs * slotWords * 8,
		pinSlots * 8,
		maxChunks * chunkSize / 8,
	}
	total := uintptr(0)
	for i, size := range sizes {
		sizes[i] = total
		total += (size + 4095) &^ 4095
	}
	m, err := mapMemory(total)
	if err != nil {
		return err
	}
	n.memory = m
	base := m.addr()
	s := *(**shared)(unsafe.Pointer(&base))
	n.s = s
	s.off, s.system, s.waits = l.offsets, l.system, l.waitSets()
	s.ring, s.chunks, s.procs = base+sizes[1], base+sizes[2], base+sizes[3]
	s.slots, s.pins, s.outside = base+sizes[4], base+sizes[5], base+sizes[6]
	if plainReads {
		s.plain = 1
	}
	if strings.Contains(runtime.Version(), "runtimesecret") {
		// The kernel leaves registers on the signal stack. Go's handler notes that for a goroutine
		// in secret.Do, and the collector then erases them.
		s.secrets = 1
	}
	s.pid, s.signal = uint64(os.Getpid()), uint64(n.signal)
	id := sessions.Add(1)
	s.tag = 0x6774<<48 | id
	s.random = uint64(time.Now().UnixNano())*0x9e3779b97f4a7c15 | 1
	for i := uint64(0); i < maxProcs; i++ {
		// Each session starts with other generations. Only slots of existing Ps are used
		// later.
		if i < uint64(runtime.NumCPU())*2+16 {
			store64(s.slot(i), id<<20<<8&0xffffffff00) // slotFree
		}
	}
	perSecond := cyclesPerSecond(monotonicNow, cycles)
	if steadyCounter() {
		scale := uint64(1e9 / float64(perSecond) * (1 << 32))
		for i := range s.clocks {
			s.clocks[i] = clock{scale: scale, most: 1 << 62 / scale}
		}
		readClock(s)
	}
	s.tornAfter = perSecond / 1e6 * 40 // 40 µs
	s.visitLimit = perSecond           // a second; begin sets the real limit
	return nil
}

// begin sets the tick's period and returns when the first is due.
func (n *Source) begin(period uint64) uint64 {
	s := n.s
	now := monotonicNow()
	s.asked, s.period, s.deadline, s.now, s.before = period, period, now+period, now, now
	s.others, s.ownUntil, s.passDue = 0, 0, ^uint64(0)
	s.forCost, s.running = 0, 0
	s.lastRan, s.idle, s.forIdle, s.ran, s.hurry, s.asleep, s.bell = now, 0, 0, 0, 0, 0, 0
	readClock(s)
	if s.sched != 0 {
		s.living, s.area = s.count(), 0
	}
	s.limitVisits(period)
	s.births, s.news, s.wanted = 0, 0, 0
	s.ticks, s.dropped, s.torn, s.sent, s.visits, s.visiting, s.answered, s.handling, s.lost = 0, 0, 0, 0, 0, 0, 0, 0, 0
	n.budget = newBudget(n.cfg.Budget, n.cfg.Rate, n.clocks())
	allot(s, n.budget.quota)
	return s.deadline
}

func (n *Source) newDrain(l *layout, cfg source.Config, out source.Out) *drain {
	d := &drain{
		s:       n.s,
		l:       l,
		out:     out,
		cfg:     cfg,
		stacks:  newStacks(out, l, n.table, cfg.WaitFrames),
		ledger:  newLedger(uint64(time.Second) / uint64(max(cfg.Rate, 1))),
		objects: newObjectList(n.image),
		labels:  &labelSets{s: n.s, sets: make(map[uintptr]labelSet)},
		system:  make(map[uint64]systemKind),
		created: make(map[uint64]creation),
		left:    make(map[uint64]goroutine),
	}
	if n.drain != nil {
		d.bias = n.drain.bias
		// The next drain takes over the pins, because the handler already uses them.
		d.labels = n.drain.labels
	}
	d.start = monotonicNow() - uint64(time.Since(cfg.Start))
	return d
}

// loop is the drain's goroutine.
func (n *Source) loop(up chan struct{}) {
	defer close(n.done)
	defer n.caught()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	storeRelease(uintptr(unsafe.Pointer(&n.s.drainG)), uint64(getg()))
	close(up)
	standstill := newStandstill(n)
	ran := ^uint64(0)
	for {
		now := loadAcquire(uintptr(unsafe.Pointer(&n.s.ran)))
		idle := now == ran
		if ran = now; !n.rest(idle) {
			return
		}
		if err := n.losses(); err != nil && !n.mute {
			n.mute = true
			n.s.quiet = 1
			n.ticker.deleteTimer()
			n.ticker.leave()
			n.drain.out.Fail(fmt.Errorf("native: %w", err))
		}
		n.pass()
		if standstill.look(time.Now()) && standstill.confirm() {
			n.drain.out.Fail(deadlock.Err)
			return
		}
	}
}

// caught recovers from a panic of the drain or of Out, so that it does not end the program.
// It reports the panic to the sampler, which stops the source.
func (n *Source) caught() {
	if r := recover(); r != nil {
		n.broken = true
		n.drain.out.Fail(fmt.Errorf("native: %v", r))
	}
}

// pass drains the ring once and sets the quota of visits for the next ticks.
func (n *Source) pass() {
	passes := uintptr(unsafe.Pointer(&n.s.passes))
	storeRelease(passes, n.s.passes|1)
	defer func() { storeRelease(passes, n.s.passes+1) }()
	spent := n.timed(func() { n.drain.out.Batch(n.drain.pass) })
	s := n.s
	now := n.clocks()
	now.pass = float64(spent)
	n.budget.spend(now)
	storeRelease(uintptr(unsafe.Pointer(&s.period)), uint64(n.budget.period))
	s.limitVisits(uint64(n.budget.period))
	allot(s, n.budget.quota)
	if left := n.drain.roster.leftAlive; left > 0 && !n.warned && n.cfg.Warn != nil {
		n.warned = true
		n.cfg.Warn(fmt.Errorf("too many goroutines: %d are sampled in turns, %d more only while they run", maxTracked, left))
	}
	n.mu.Lock()
	n.counts = tachyon.Counts{
		TicksReached: int64(s.ticks),
		Dropped:      int64(s.dropped+s.torn+s.unread+s.lost) + n.drain.torn + n.dropped,
		Torn:         int64(s.torn) + n.drain.torn,
		Cost:         n.budget.total,
		SignalTaken:  n.taken,
		NotSeen:      n.drain.lack(),

		GoroutinesUntracked: int64(n.drain.roster.leftAlive),
		ProcessCPU:          time.Duration(n.drain.account.used),
	}
	end := n.ended
	if end.IsZero() {
		end = time.Now()
	}
	n.counts.TicksAsked = int64(end.Sub(n.began).Seconds() * float64(n.cfg.Rate))
	late := max(0, n.counts.TicksAsked-n.counts.TicksReached)
	n.counts.TicksForBudget = min(int64(s.forCost/s.asked), late)
	n.counts.TicksIdle = min(int64(s.forIdle/s.asked), late-n.counts.TicksForBudget)
	n.mu.Unlock()
	n.drain.out.Counted()
}

// clocks reads the clocks and counters that the cost is computed from.
func (n *Source) clocks() clocks {
	s := n.s
	perCycle := 40e3 / float64(s.tornAfter) // ns
	r := clocks{
		at: time.Now(), procs: runtime.GOMAXPROCS(0),
		process: float64(processCPU()), ticker: float64(threadCPU(n.ticker.tid)),
		ticks: float64(s.ticks), running: float64(s.running),
		answered: float64(s.answered), handling: float64(s.handling) * perCycle,
		visiting: float64(s.visiting) * perCycle, visits: float64(s.visits) / sameVisits, news: float64(s.news), wanted: float64(s.wanted),
		all: s.moving.n + s.active.n - min(s.active.dead, s.active.n) + s.still.n + s.goroutines - min(s.met, s.goroutines),
	}
	if n.drain != nil {
		r.records = float64(n.drain.work)
	}
	return r
}

// timed calls f and returns the CPU time that it took, in ns.
func (n *Source) timed(f func()) uint64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := unix.Gettid()
	before := threadCPU(tid)
	readClock(n.s)
	f()
	spent := threadCPU(tid) - before
	if a := n.drain.account; a != nil {
		a.passed(tid, spent)
	}
	return spent
}

// Stats returns the counts so far.
func (n *Source) Stats() tachyon.Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counts
}

// Stop ends sampling; see source.Source.
func (n *Source) Stop() {
	n.endWaits()
	n.lookOnce()
	n.silence()
	if !n.broken {
		n.finishRing()
		n.drain.end = true
		func() {
			defer n.caught()
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			n.pass()
		}()
	}
	busy.Store(!n.release())
}

// lastLook bounds the time in which Stop visits all goroutines once more. On an idle machine
// a hundred thousand goroutines take a quarter of it.
const lastLook = 400 * time.Millisecond

// lookOnce makes the ticks visit every goroutine once more. Otherwise the time since each
// goroutine's last visit would be missing from the profile. It does nothing if every tick
// visits all goroutines anyway. It takes lastLook at most.
func (n *Source) lookOnce() {
	s := n.s
	if n.mute || n.broken || s.unable != 0 || s.moving.n+s.active.n-s.active.dead+s.still.n <= s.quota>>16/4 {
		return
	}
	defer n.caught()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	n.hurry()
	circles := [...]*circle{&s.moving, &s.active, &s.still}
	var begin, before [len(circles)]circle
	for i, c := range circles {
		begin[i] = *c
	}
	for end := time.Now().Add(lastLook); time.Now().Before(end); {
		for i, c := range circles {
			before[i] = *c
		}
		allot(s, 1<<40)
		for ticks := s.ticks; s.ticks == ticks && time.Now().Before(end); {
			time.Sleep(100 * time.Microsecond)
		}
		all := true
		for i, c := range circles {
			// Entries leave circles meanwhile. If all of a circle are dead, visits do not pass them.
			all = all && (c.n <= c.dead || c.passed-begin[i].passed >= begin[i].n || c.passed-before[i].passed >= c.n)
		}
		if all {
			allot(s, fewVisits<<16)
			return // mostly one tick is enough; the last pass follows at once, so that little time comes after it
		}
		n.pass() // it makes room in the ring, and sets the usual quota again
	}
}

// hurry makes the next tick come at once, and ends the idle state for good.
func (n *Source) hurry() {
	storeRelease(uintptr(unsafe.Pointer(&n.s.hurry)), 1)
	wake(unsafe.Pointer(&n.s.leave))
}

// silence ends the ticks. Then it waits up to answerLimit for threads that have not answered.
func (n *Source) silence() {
	storeRelease(uintptr(unsafe.Pointer(&n.s.quiet)), 1)
	n.ended = time.Now()
	n.ticker.deleteTimer()
	n.ticker.stop()
	within(answerLimit, func() bool { return !n.pending() })
}

// answerLimit bounds how long Stop waits for threads that were sent a signal and have not got
// a core since.
const answerLimit = 200 * time.Millisecond

// pending reports whether a living thread has not answered its signal yet.
func (n *Source) pending() bool {
	for i := uint64(0); i < n.s.nprocs; i++ {
		slot := n.s.slot(i)
		if st := loadAcquire(slot) & 0xff; st == slotSent || st == slotFilling {
			if unix.Tgkill(os.Getpid(), int(load64(slot+slotTID*8)), 0) == nil {
				return true
			}
		}
	}
	return false
}

// finishRing copies the last answers to the ring, as the next tick would have done.
func (n *Source) finishRing() {
	s := n.s
	s.write = s.head
	for i := uint64(0); i < s.nprocs; i++ {
		slot := s.slot(i)
		if st := loadAcquire(slot); st&0xff == slotFilled {
			harvest(s, slot)
			storeRelease(slot, st&^0xff)
		}
	}
	storeRelease(uintptr(unsafe.Pointer(&s.head)), s.write)
}

// release undoes what prepare did, also if prepare failed halfway. It ends the tick thread
// first. It frees the memory last, when no handler can use it any more.
//
// If a thread still uses the memory, release leaves it mapped and returns false. Then this
// process can have no further native session.
func (n *Source) release() (free bool) {
	free = true
	if n.ticker != nil {
		n.ticker.deleteTimer()
		free = n.ticker.stop()
		n.ticker = nil
	}
	if n.memory != nil {
		if loadState() != nil {
			releaseSignal(n.signal, n.old)
			free = n.memoryInUse(false) && free
		}
		if free {
			if n.drain != nil && n.drain.roster != nil {
				n.drain.roster.free()
			}
			unix.Munmap(n.memory)
		}
		n.memory, n.s = nil, nil
	}
	n.drain = nil
	return free
}

//go:norace
//go:nocheckptr
func loadState() unsafe.Pointer { return state }

// memoryInUse gives the memory to the handler and returns true, or takes it away and reports
// whether no handler uses it any more.
//
//go:norace
//go:nocheckptr
func (n *Source) memoryInUse(yes bool) bool {
	if yes {
		storeRelease(uintptr(unsafe.Pointer(&state)), uint64(uintptr(unsafe.Pointer(n.s))))
		return true
	}
	swap64(uintptr(unsafe.Pointer(&state)), 0) // complete before inHandler is read
	return within(stopLimit, func() bool { return loadAcquire(uintptr(unsafe.Pointer(&inHandler))) == 0 })
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
