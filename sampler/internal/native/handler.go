//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
)

// The signal handler. It can run at any point of the program, on a signal stack, with every
// signal blocked, perhaps while the world is stopped. So it calls only assembly, and functions of this package and of
// packages goruntime, mem and cost that are marked go:nosplit and go:norace. None of them may grow the stack,
// allocate, write a Go pointer, panic, or be instrumented.
//
// The signal is the one that the runtime uses for preemption. It has two uses here, which
// siginfo tells apart: the timer's first tick on the tick thread, and our own
// rt_tgsigqueueinfo on threads that run goroutines. Every other signal goes to Go's handler.
//
// A thread can have only one pending signal of a number. The runtime's signal is lost while
// ours is pending, and ours is lost while the runtime's is pending. So Go's handler also runs
// after one of our signals if the runtime waits for an answer (m.signalPending). And a signal
// that is not ours makes the thread answer ours too.

const (
	siTimer = ^uint32(1) // si_code SI_TIMER, -2
	siQueue = ^uint32(0) // si_code SI_QUEUE, -1
	siTKill = ^uint32(5) // si_code SI_TKILL, -6

	probeTag = 1 << 46 // in the value of a signal of checkVDSO
)

//go:nosplit
//go:norace
//go:nocheckptr
func onSignal(info, ctx, _, _ uintptr) uintptr {
	mem.Add64(uintptr(unsafe.Pointer(&inHandler)), 1)
	next := handle(info, ctx)
	mem.Add64(uintptr(unsafe.Pointer(&inHandler)), ^uint64(0))
	return next
}

//go:nosplit
//go:norace
//go:nocheckptr
func handle(info, ctx uintptr) uintptr {
	// The load must come after the increment of inHandler, for the processor too: memoryInUse
	// clears state first and then reads inHandler.
	s := at(uintptr(mem.LoadAcquire(uintptr(unsafe.Pointer(&state)))))
	if s == nil {
		return oldHandler
	}
	code, value := mem.Load32(info+8), mem.Load64(info+24)
	switch {
	case code == siTimer && value == s.tag && uint64(mem.Syscall(unix.SYS_GETTID, 0, 0, 0, 0, 0, 0)) == s.tid:
		if mem.Load64(ctx+ctxCall) == unix.SYS_FUTEX && mem.Load64(ctx+ctxArg) == s.word {
			callStay(s, ctx)
		}
		if mem.Load32(uintptr(s.tickM)+s.Off.MSignalPending) == 0 {
			return 0
		}
	case code == siTimer && value == s.tag|probeTag:
		callProbe(s, ctx, true)
		if mem.Load32(uintptr(s.probeM)+s.Off.MSignalPending) == 0 {
			return 0
		}
	case code == siTimer && s.isCPUTimer(value):
		if callCPUTimer(s, value, ctx) == 0 && s.secrets == 0 {
			return 0
		}
	case code == siQueue && value>>48 == s.tag>>48 && uint64(mem.Load32(info+16)) == s.pid:
		if callInterrupted(s, value, ctx) == 0 && s.secrets == 0 {
			return 0
		}
	default:
		if mem.LoadAcquire(uintptr(unsafe.Pointer(&s.probing))) != 0 && code == siTKill && uint64(mem.Load32(info+16)) == s.pid {
			callProbe(s, ctx, false)
		}
		callOther(s, ctx)
	}
	return oldHandler
}

// takeTicks takes ticks until leave is set. The timer's signal is the first tick. The thread was
// in its futex system call, so the scheduler does not need it for a P. Between ticks the
// thread waits within the handler for the time of the next tick. That is cheaper: a signal
// for each tick, with the thread's registers saved and restored and the timer set again,
// would cost more than the visits to a small program's goroutines.
//
// The thread takes other signals meanwhile, as in any system call: a sender may want this
// thread, or wait until every thread has handled a signal, as setuid does. What the thread
// has blocked stays blocked: the program can mean it for a signalfd. So does SIGPROF: Go's
// handler would walk this stack, and the program has no code on it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func takeTicks(s *shared, ctx uintptr) {
	mem.Swap64(uintptr(unsafe.Pointer(&s.staying)), 1) // complete before leave is read
	s.mask = mem.Load64(ctx+ctxMask) | 1<<(s.signal-1) | 1<<(unix.SIGPROF-1)
	mem.Syscall(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&s.mask)), 0, 8, 0, 0)
	due := true
	for mem.LoadAcquire(uintptr(unsafe.Pointer(&s.leave))) == 0 {
		if due {
			callTick(s)
		}
		s.until[0], s.until[1] = s.deadline/1e9, s.deadline%1e9
		// Wait until an absolute time of CLOCK_MONOTONIC, while the word is 0.
		r := mem.Syscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&s.leave)), futexWaitBitset|futexPrivate, 0, uintptr(unsafe.Pointer(&s.until)), 0, 1<<32-1)
		due = -r == uintptr(unix.ETIMEDOUT) || r == 0 && mem.LoadAcquire(uintptr(unsafe.Pointer(&s.hurry))) != 0
		if !due && r != 0 && -r != uintptr(unix.EINTR) && -r != uintptr(unix.EAGAIN) {
			s.unable = uint64(-r)
			break
		}
	}
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.staying)), 0)
}

// onTick takes a tick.
//
//go:nosplit
//go:norace
//go:nocheckptr
func onTick(s *shared) {
	now := monotonic(s)
	s.late = now - min(now, s.deadline)
	s.before, s.now = s.now, now
	s.ticks++
	s.found, s.events = 0, 0
	s.write = s.head
	if mem.LoadAcquire(uintptr(unsafe.Pointer(&s.tail))) == s.write {
		s.ringAt = -s.write // at its beginning again: what was written lately is in the processor's caches
	}
	callHarvest(s)
	callCensus(s)
	interruptAll(s)
	callAdd(s)
	callTurns(s)
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.head)), s.write)
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.swept)), s.sweeping)
	next(s)
}

// interruptAll makes running goroutines record themselves, and visits those in a system call
// that still have their P. It visits a goroutine at once that ran at the last tick and does not
// run now: otherwise the time since its last sample would count as running.
//
//go:nosplit
//go:norace
//go:nocheckptr
func interruptAll(s *shared) {
	n := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.nprocs)))
	for i := uint64(0); i < n; i++ {
		last := uintptr(mem.Load64(s.slot(i) + slotLast*8))
		called := callInterrupt(s, i)
		now := uintptr(mem.Load64(s.slot(i) + slotLast*8))
		if called == 0 && last != now && keepsP(s, last, i) {
			called = last
		}
		if called != 0 {
			callVisit(s, called, 0, ^uint64(0))
			mem.Store64(s.slot(i)+slotLast*8, uint64(called))
			now = called
		}
		if last != 0 && last != now {
			callVisit(s, last, 0, ^uint64(0))
		}
	}
}

// keepsP reports whether a goroutine is in a system call and will have P i again when it ends.
// In Go 1.25 that P has no M meanwhile.
//
//go:nosplit
//go:norace
//go:nocheckptr
func keepsP(s *shared, g uintptr, i uint64) bool {
	if g == 0 || mem.Load32(g+s.Off.GStatus) != goruntime.GSyscall {
		return false
	}
	p, m := uintptr(mem.Load64(s.procs+uintptr(i)*8)), uintptr(mem.Load64(g+s.Off.GM))
	return m != 0 && mem.Load32(p+s.Off.PStatus) == goruntime.PSyscall && uintptr(mem.Load64(m+s.Off.MOldP)) == p
}

// monotonic returns the time on CLOCK_MONOTONIC in ns, the clock of Go's monotonic times.
// The handler cannot use the vDSO, and a system call is slow. So it mostly computes the time
// from the cycle counter and the drain's last reading of both clocks.
//
//go:nosplit
//go:norace
//go:nocheckptr
func monotonic(s *shared) uint64 {
	return max(s.timeNow(uintptr(unsafe.Pointer(&s.timespec))), s.now+1)
}

// timeNow returns the time on CLOCK_MONOTONIC. at is memory for a timespec. It returns 0 if the kernel refuses to say.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) timeNow(at uintptr) uint64 {
	n := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.clockAt)))
	c := uintptr(unsafe.Pointer(&s.clocks)) + uintptr(n&1)*unsafe.Sizeof(clock{})
	ns, passed := mem.Load64(c), mem.Cycles()-mem.Load64(c+8)
	mem.Fence()
	// The place of a reading is written again only after the next reading, in the other place, has become the current one.
	if mem.LoadAcquire(uintptr(unsafe.Pointer(&s.clockAt))) == n && passed < mem.Load64(c+24) {
		return ns + passed*mem.Load64(c+16)>>32
	}
	return cpuClock(unix.CLOCK_MONOTONIC, at)
}

// room makes n contiguous words of the ring available. It returns false if the drain is too
// far behind.
//
//go:nosplit
//go:norace
//go:nocheckptr
func room(s *shared, n uint64) bool {
	pos := (s.write + s.ringAt) & (ringWords - 1)
	pad := uint64(0)
	if pos+n > ringWords {
		pad = ringWords - pos
	}
	if s.write+pad+n-mem.LoadAcquire(uintptr(unsafe.Pointer(&s.tail))) > ringWords {
		return false
	}
	if pad != 0 {
		mem.Store64(s.ring+uintptr(pos)*8, recPad|pad<<8)
		s.write += pad
	}
	return true
}

// nearlyFull reports whether visits in turn must wait until the drain has read more of the ring. The rest
// of it is for goroutines that run: a visit can come later, but a running goroutine's CPU time would
// be given to others.
//
//go:nosplit
//go:norace
//go:nocheckptr
func nearlyFull(s *shared) bool {
	return s.write-mem.LoadAcquire(uintptr(unsafe.Pointer(&s.tail))) > ringWords-ringKept
}

// interrupt copies the record that P i's thread has made since the last tick to the ring.
// Then it sends a signal to the thread that has the P now, so that its goroutine is recorded. If
// that goroutine is in a system call, interrupt returns it instead. Otherwise it returns 0.
//
// The M comes from the P, so the cost does not depend on the number of goroutines. If p.m
// reads the same before and after, the M had the P all the time. So the reads of m.curg and
// m.procid between are valid, and curg is a g, which is never freed.
//
//go:nosplit
//go:norace
//go:nocheckptr
func interrupt(s *shared, i uint64) uintptr {
	slot := s.slot(i)
	state := mem.LoadAcquire(slot)
	if state&0xff == slotFilled || state&0xff == slotFree {
		mem.Store64(slot+slotLast*8, 0)
	}
	if state&0xff == slotFilled {
		harvest(s, slot)
		state = state &^ 0xff
		mem.StoreRelease(slot, state)
	}
	if mem.Load64(uintptr(unsafe.Pointer(&s.quiet))) != 0 {
		return 0
	}
	p := uintptr(mem.Load64(s.procs + uintptr(i)*8))
	switch mem.Load32(p + s.Off.PStatus) {
	case goruntime.PRunning:
	case goruntime.PSyscall:
		s.found++ // until the runtime takes the P away
		return 0
	default:
		return 0
	}
	m := uintptr(mem.Load64(p + s.Off.PM))
	if m == 0 {
		return 0
	}
	mem.Fence()
	g := uintptr(mem.Load64(m + s.Off.MCurG))
	tid := mem.Load64(m + s.Off.MProcID)
	mem.Fence()
	if uintptr(mem.Load64(p+s.Off.PM)) != m || tid == 0 || tid == s.tid {
		return 0
	}
	if g != 0 && g != uintptr(s.drainG) {
		s.found++
	}
	if g == 0 || !onCPU(s, g, m) {
		if g != 0 && mem.Load32(g+s.Off.GStatus) == goruntime.GSyscall {
			return g // it is visited, not interrupted
		}
		callScheduling(s, tid)
		return 0
	}
	if state&0xff != slotFree {
		// The thread has not answered yet. Either it waits for a core: then its goroutine does
		// not advance, and the later record is right for this tick too. Or it blocks the signal
		// for now, see recordBlocked.
		if uintptr(mem.Load64(slot+slotM*8)) == m && s.ticks-mem.Load64(slot+slotSince*8) < 1000 {
			mem.Store64(slot+slotTime*8, s.now)
			callBlocked(s, slot, g, tid)
			return 0
		}
		if state&0xff != slotSent || !mem.Cas64(slot, state, (state&^0xff)+0x100) {
			return 0
		}
		s.lost++
		state = (state &^ 0xff) + 0x100
	}
	gen := state >> 8 & 0xffffffff
	mem.Store64(slot+slotM*8, uint64(m))
	mem.Store64(slot+slotTID*8, tid)
	mem.Store64(slot+slotTime*8, s.now)
	mem.Store64(slot+slotFirst*8, s.now)
	mem.Store64(slot+slotBefore*8, s.before)
	mem.Store64(slot+slotSince*8, s.ticks)
	mem.Store64(slot+slotChecked*8, s.now)
	mem.Store64(slot+slotClock*8, 0)
	mem.StoreRelease(slot, state&^0xff|slotSent)
	s.info[0] = s.signal
	s.info[1] = uint64(siQueue)
	s.info[2] = s.pid
	s.info[3] = s.tag>>48<<48 | gen<<16 | i
	s.sent++
	mem.Store64(slot+slotLast*8, uint64(g))
	if r := mem.Syscall(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(s.pid), uintptr(tid), uintptr(s.signal), uintptr(unsafe.Pointer(&s.info)), 0, 0); r != 0 {
		s.refused = uint64(-r)
		if -r != uintptr(unix.ESRCH) {
			s.lost++
		}
		mem.Cas64(slot, state&^0xff|slotSent, (state&^0xff)+0x100)
	}
	return 0
}

// harvest copies a filled slot's record to the ring.
//
//go:nosplit
//go:norace
//go:nocheckptr
func harvest(s *shared, slot uintptr) {
	n := mem.Load64(slot + slotCount*8)
	if n == 0 {
		return
	}
	if !room(s, n) {
		s.dropped++
		return
	}
	to := s.words(s.write)
	for i := uintptr(0); i < uintptr(n); i++ {
		mem.Store64(to+i*8, mem.Load64(slot+(slotRecord+i)*8))
	}
	s.write += n
}

// onInterrupt records the goroutine that this thread runs. It returns 0 if the runtime has
// not asked this thread for preemption. The runtime sets m.signalPending before it sends its
// signal, so a signal that was lost because ours was pending is noticed here. A signal that
// is still to come is then handled twice, which does no harm.
//
//go:nosplit
//go:norace
//go:nocheckptr
func onInterrupt(s *shared, value uint64, ctx uintptr) uintptr {
	i, gen := value&0xffff, value>>16&0xffffffff
	if i >= maxProcs {
		return 1
	}
	slot := s.slot(i)
	if !mem.Cas64(slot, gen<<8|slotSent, gen<<8|slotFilling) {
		// This signal is out of date. While the thread had no core, its P can have gone to another
		// thread and come back. The signal that was sent then was lost while this one was pending.
		callOther(s, ctx)
		return 1
	}
	return fill(s, slot, gen, ctx)
}

// onOther handles a signal that is not ours. If this thread has not answered our signal, ours
// may have been lost while the other was pending. So onOther answers it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func onOther(s *shared, ctx uintptr) {
	tid := uint64(mem.Syscall(unix.SYS_GETTID, 0, 0, 0, 0, 0, 0))
	n := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.nprocs)))
	for i := uint64(0); i < n; i++ {
		slot := s.slot(i)
		st := mem.LoadAcquire(slot)
		if st&0xff == slotSent && mem.Load64(slot+slotTID*8) == tid && mem.Cas64(slot, st, st&^0xff|slotFilling) {
			fill(s, slot, st>>8, ctx)
		}
	}
}

// fill writes the thread's record into a slot that the thread has taken. It returns the same
// as onInterrupt.
//
//go:nosplit
//go:norace
//go:nocheckptr
func fill(s *shared, slot uintptr, gen uint64, ctx uintptr) uintptr {
	t := mem.Cycles()
	mem.Store64(slot+slotAsked*8, 1)
	n := uint64(callRecord(s, slot, ctx))
	mem.Store64(slot+slotCount*8, n)
	mem.Add64(uintptr(unsafe.Pointer(&s.answered)), 1)
	if n == 0 {
		mem.Add64(uintptr(unsafe.Pointer(&s.unread)), 1)
	}
	// The thread may have lost its core meanwhile; that time is no cost.
	mem.Add64(uintptr(unsafe.Pointer(&s.handling)), min(mem.Cycles()-t, s.tornAfter/4))
	asked := uintptr(mem.Load64(slot + slotAsked*8))
	mem.StoreRelease(slot, gen<<8|slotFilled)
	return asked
}
