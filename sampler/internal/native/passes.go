//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/tachyon"
)

// pass drains the ring once and sets the quota of visits for the next ticks.
func (n *Source) pass() {
	passes := uintptr(unsafe.Pointer(&n.s.passes))
	mem.StoreRelease(passes, n.s.passes|1)
	defer func() { mem.StoreRelease(passes, n.s.passes+1) }()
	spent := n.timed(func() { n.drain.out.Batch(n.drain.pass) })
	s := n.s
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.passing)), s.passing+spent)
	now := n.clocks()
	now.Pass = float64(spent)
	n.budget.Spend(now)
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.period)), uint64(n.budget.Period))
	n.limit()
	allot(s, n.budget.Quota)
	if left := n.drain.roster.leftAlive; left > 0 && !n.warned && n.cfg.Warn != nil {
		n.warned = true
		n.cfg.Warn(fmt.Errorf("too many goroutines: %d are sampled in turns, %d more only while they run", maxTracked, left))
	}
	n.mu.Lock()
	n.counts = tachyon.Counts{
		TicksReached: int64(s.ticks),
		Dropped:      int64(s.dropped+s.torn+s.unread+s.lost) + n.drain.torn + n.dropped,
		Torn:         int64(s.torn) + n.drain.torn,
		Cost:         n.budget.Total,
		SignalTaken:  n.taken,
		NotSeen:      n.drain.lack(),

		GoroutinesUntracked: int64(n.drain.roster.leftAlive),
		ProcessCPU:          time.Duration(n.drain.account.used),
		CPUAtTicks:          time.Duration(n.drain.threads.without),
	}
	end := n.ended
	if end.IsZero() {
		end = time.Now()
	}
	n.counts.TicksAsked = int64(end.Sub(n.began).Seconds() * float64(n.cfg.Rate))
	n.counts.TicksReached = min(n.counts.TicksReached, n.counts.TicksAsked) // ticks come at random times, so a few more may have come
	late := max(0, n.counts.TicksAsked-n.counts.TicksReached)
	n.counts.TicksForBudget = min(int64(s.forCost/s.asked), late)
	n.counts.TicksIdle = min(int64(s.forIdle/s.asked), late-n.counts.TicksForBudget)
	n.mu.Unlock()
	n.drain.out.Counted()
}

// clocks reads the clocks and counters that the cost is computed from.
func (n *Source) clocks() cost.Clocks {
	s := n.s
	perCycle := 1e3 / float64(s.perMicro) // ns
	r := cost.Clocks{
		At: time.Now(), Procs: runtime.GOMAXPROCS(0), Cores: n.cfg.MayUse(),
		Process: float64(cost.ProcessCPU()), Ticker: float64(cost.ThreadCPU(n.ticker.tid)),
		Ticks: float64(s.ticks), Running: float64(s.running),
		Answered: float64(s.answered), Handling: float64(s.handling) * perCycle,
		Visiting: float64(s.visiting) * perCycle, Visits: float64(s.visits), News: float64(s.news), Wanted: float64(s.wanted),
	}
	if n.drain != nil {
		r.Records, r.Reading = float64(n.drain.work), float64(n.drain.reading)*perCycle
	}
	return r
}

// timed calls f and returns the CPU time that it took, in ns.
func (n *Source) timed(f func()) uint64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := unix.Gettid()
	before := cost.ThreadCPU(tid)
	readClock(n.s)
	f()
	spent := cost.ThreadCPU(tid) - before
	if a := n.drain.account; a != nil {
		a.passed(tid, spent)
	}
	return spent
}

// limit sets the number of looks at the still circle that a tick may make, how often those that
// rest have a record, and the longest time for all looks and visits at a tick: half of the mean time
// between two ticks, or half of longestVisits if ticks are rarer.
func (n *Source) limit() {
	s, each := n.s, 50.0 // ns, until some have been measured
	if s.looks > fewLooks {
		each = max(5, float64(s.looking)*1e3/float64(s.perMicro)/float64(s.looks))
	}
	share := n.budget.Share(n.cfg.MayUse())
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.mostLooks)), uint64(share/stillLooksPart/each))
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.beat)), beat(s.still.n, share/n.budget.Period))
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.visitLimit)), s.perMicro*(min(s.period, uint64(longestVisits))/1000)/2)
}

// begin sets the tick's period and returns when the first is due.
func (n *Source) begin(period uint64) uint64 {
	s := n.s
	now := monotonicNow()
	s.asked, s.period, s.deadline, s.now, s.before = period, period, now+period, now, now
	s.sums, s.activity = sums{}, activity{lastRan: now, awake: uint64(idleAfter)}
	s.answered, s.handling = 0, 0
	s.passing, s.passDue, s.hurry, s.asleep, s.sweeping, s.ending = 0, ^uint64(0), 0, 0, s.sweeps, 0
	readClock(s)
	if s.sched != 0 {
		s.living, s.area = s.count(), 0
	}
	n.budget = cost.NewBudget(n.cfg.Budget, n.cfg.Rate, n.clocks())
	n.limit()
	allot(s, n.budget.Quota)
	return s.deadline
}

// During a session the program can take away what the session needs: a seccomp policy that is
// installed later refuses a system call, or C code sets the signal's action. losses finds that.
// Otherwise the session would lose samples without any message.

// losses is called before each pass of the drain. It sets our handler again if the signal is
// ignored or has its default. An error says why there can be no more ticks.
func (n *Source) losses() error {
	if n.mute {
		return nil
	}
	lost, taken, err := keepSignal(n.signal, &n.old)
	if err != nil {
		return err
	}
	if taken {
		n.taken++
	}
	if lost {
		n.giveUp()
	}
	if err := n.refusal(); err != nil {
		return fmt.Errorf("%w: running goroutines cannot be sampled", err)
	}
	if n.s.unable != 0 {
		return fmt.Errorf("futex: %w", unix.Errno(n.s.unable))
	}
	err = n.drain.unread
	if e := unix.Errno(n.s.unlisted); err == nil && e != 0 {
		err = fmt.Errorf("process_vm_readv: %w", e)
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w: new goroutines cannot be sampled", err)
	}
	return nil
}

// refusal returns why signals cannot be sent to running goroutines, nil if they can.
func (n *Source) refusal() error {
	switch e := unix.Errno(n.s.refused); e {
	case 0, unix.ESRCH, unix.EAGAIN: // the thread ended; there was no memory for it
		return nil
	default:
		return fmt.Errorf("rt_tgsigqueueinfo: %w", e)
	}
}

// giveUp frees the slots of signals that have no answer. The kernel may have dropped them, and
// the tick thread would wait a thousand ticks for each. If such a signal arrives later, its
// generation is out of date, and onInterrupt handles that.
func (n *Source) giveUp() {
	s := n.s
	for i := range s.nprocs {
		slot := s.slot(i)
		if st := mem.LoadAcquire(slot); st&0xff == slotSent && mem.Cas64(slot, st, (st&^0xff)+0x100) {
			n.dropped++
		}
	}
}
