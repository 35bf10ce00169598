//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The signal handler. It runs at any point of the program, on a signal stack,
// with every signal blocked, perhaps while the world is stopped. So all it
// calls is here, in walk.go, in visit.go or in assembly; none of it may grow
// the stack, allocate, write a Go pointer, panic, or be instrumented.
//
// The signal is the runtime's own for preemption, and has two uses here, told apart
// by siginfo: the timer's first tick on the tick thread, and our own
// rt_tgsigqueueinfo on threads that run goroutines. All else that comes in goes to
// Go's handler. But a thread has room for one pending signal of a number: the
// runtime's is lost in one of ours that is pending, and ours in the runtime's. So
// where the runtime waits for an answer (m.signalPending), Go's handler runs after
// one of ours as well, and a signal that is not ours is an answer to us too.

const (
	siTimer = ^uint32(1) // si_code SI_TIMER, -2
	siQueue = ^uint32(0) // si_code SI_QUEUE, -1
	siTKill = ^uint32(5) // si_code SI_TKILL, -6
)

//go:nosplit
//go:norace
//go:nocheckptr
func onSignal(info, ctx, _, _ uintptr) uintptr {
	add64(uintptr(unsafe.Pointer(&inHandler)), 1)
	next := handle(info, ctx)
	add64(uintptr(unsafe.Pointer(&inHandler)), ^uint64(0))
	return next
}

//go:nosplit
//go:norace
//go:nocheckptr
func handle(info, ctx uintptr) uintptr {
	// After the count, for the processor too: memoryInUse does it the other way round.
	s := at(uintptr(loadAcquire(uintptr(unsafe.Pointer(&state)))))
	if s == nil {
		return oldHandler
	}
	code, value := load32(info+8), load64(info+24)
	switch {
	case code == siTimer && value == s.tag && uint64(rawSyscall(unix.SYS_GETTID, 0, 0, 0, 0, 0, 0)) == s.tid:
		if load64(ctx+ctxCall) == unix.SYS_FUTEX && load64(ctx+ctxArg) == s.word {
			callStay(s.base(), 0, 0, 0)
		}
		if load32(uintptr(s.tickM)+s.off.mSignalPending) == 0 {
			return 0
		}
	case code == siQueue && value>>48 == s.tag>>48 && uint64(load32(info+16)) == s.pid:
		if callInterrupted(s.base(), uintptr(value), ctx, 0) == 0 && s.secrets == 0 {
			return 0
		}
	default:
		if tid := loadAcquire(uintptr(unsafe.Pointer(&s.probeTID))); tid != 0 && code == siTKill &&
			uint64(load32(info+16)) == s.pid && uint64(rawSyscall(unix.SYS_GETTID, 0, 0, 0, 0, 0, 0)) == tid {
			callProbe(s.base(), ctx, 0, 0)
		}
		callOther(s.base(), ctx, 0, 0)
	}
	return oldHandler
}

// stay takes ticks, from the first one, whose signal the timer sent, until leave is
// set. The thread was in its system call, or about to, so it holds no P that the
// scheduler would miss. Between ticks it waits for the next one's time in the
// handler: a signal for each tick, the thread's registers saved and restored for
// it, and the timer set again cost more than the look at a small program does.
//
// Other signals come through meanwhile, as in any system call: somebody may mean
// this very thread, or wait until every thread has had its own, as setuid does.
// SIGPROF waits: Go would walk this stack, on which there is nothing of the program's.
//
//go:nosplit
//go:norace
//go:nocheckptr
func stay(base, _, _, _ uintptr) uintptr {
	s := at(base)
	swap64(uintptr(unsafe.Pointer(&s.staying)), 1) // done before leave is looked at
	s.mask = 1<<(s.signal-1) | 1<<(unix.SIGPROF-1)
	rawSyscall(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&s.mask)), 0, 8, 0, 0)
	due := true
	for loadAcquire(uintptr(unsafe.Pointer(&s.leave))) == 0 {
		if due {
			callTick(base, 0, 0, 0)
		}
		s.until[0], s.until[1] = s.deadline/1e9, s.deadline%1e9
		// To an absolute time of CLOCK_MONOTONIC, while the word is 0.
		r := rawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&s.leave)), futexWaitBitset|futexPrivate, 0, uintptr(unsafe.Pointer(&s.until)), 0, 1<<32-1)
		if due = -r == uintptr(unix.ETIMEDOUT); !due && -r != uintptr(unix.EINTR) && -r != uintptr(unix.EAGAIN) {
			s.unable = uint64(-r)
			break
		}
	}
	storeRelease(uintptr(unsafe.Pointer(&s.staying)), 0)
	return 0
}

// onTick takes a tick.
//
//go:nosplit
//go:norace
//go:nocheckptr
func onTick(base, _, _, _ uintptr) uintptr {
	s := at(base)
	now := monotonic(s)
	s.before, s.now = s.now, now
	next(s)
	s.ticks++
	s.write = s.head
	if room(s, 2) {
		w := s.words(s.write)
		store64(w, recTick|2<<8)
		store64(w+8, s.now)
		s.write += 2
	}
	interruptAll(s)
	visitSome(s)
	storeRelease(uintptr(unsafe.Pointer(&s.head)), s.write)
	return 0
}

// interruptAll has the goroutines that run record themselves. A goroutine that ran at the last
// tick and does not run now is visited at once: otherwise the time since its last
// sample would count as running.
//
//go:nosplit
//go:norace
//go:nocheckptr
func interruptAll(s *shared) {
	n := loadAcquire(uintptr(unsafe.Pointer(&s.nprocs)))
	for i := uint64(0); i < n; i++ {
		last := uintptr(load64(s.slot(i) + slotLast*8))
		callInterrupt(s.base(), uintptr(i), 0, 0)
		if last != 0 && last != uintptr(load64(s.slot(i)+slotLast*8)) {
			callVisit(s.base(), last, 0, ^uintptr(0))
		}
	}
}

// next sets when the next tick is due, between a half and one and a half periods
// after this one. At a steady period a program that does something each
// millisecond would be seen at the same point of it for ever. A few percent of
// randomness is not enough: with 6 % the point drifts so slowly that thousands of
// ticks are no more than a few dozen independent looks. With a whole period's worth
// each tick is one. Lateness does not add up; ticks that are late by more than a
// period are lost.
//
//go:nosplit
//go:norace
//go:nocheckptr
func next(s *shared) {
	by := step(s)
	if s.deadline += by; s.deadline <= s.now {
		s.deadline = s.now + by
	}
}

//go:nosplit
//go:norace
//go:nocheckptr
func step(s *shared) uint64 {
	x := s.random // xorshift64
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	s.random = x
	return s.period/2 + (x>>32)*s.period>>32
}

// monotonic returns the time on CLOCK_MONOTONIC, the clock of Go's monotonic
// times. From here the kernel would have to be asked; most times the cycle counter
// tells, of which the drain takes a reading now and then.
//
//go:nosplit
//go:norace
//go:nocheckptr
func monotonic(s *shared) uint64 {
	c := uintptr(unsafe.Pointer(&s.clocks)) + uintptr(loadAcquire(uintptr(unsafe.Pointer(&s.clockAt)))&1)*unsafe.Sizeof(clock{})
	if passed := cycles() - load64(c+8); passed < load64(c+24) {
		if now := load64(c) + passed*load64(c+16)>>32; now > s.now {
			return now
		}
		return s.now + 1
	}
	if rawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&s.timespec)), 0, 0, 0, 0) != 0 {
		return s.now + 1
	}
	return s.timespec[0]*1e9 + s.timespec[1]
}

// room makes n contiguous words of the ring available, or says that the drain
// is too far behind.
//
//go:nosplit
//go:norace
//go:nocheckptr
func room(s *shared, n uint64) bool {
	pos := s.write & (ringWords - 1)
	pad := uint64(0)
	if pos+n > ringWords {
		pad = ringWords - pos
	}
	if s.write+pad+n-loadAcquire(uintptr(unsafe.Pointer(&s.tail))) > ringWords {
		return false
	}
	if pad != 0 {
		store64(s.ring+uintptr(pos)*8, recPad|pad<<8)
		s.write += pad
	}
	return true
}

// interrupt takes in what P i's goroutine recorded since the last tick, and
// asks the goroutine that it runs now to record itself.
//
// The M comes from the P, so the cost does not depend on how many goroutines
// there are. Between two equal readings of p.m the M was wired to the P, so what
// was read from it in between is true, and curg is a g, which is never freed.
//
//go:nosplit
//go:norace
//go:nocheckptr
func interrupt(base, index, _, _ uintptr) uintptr {
	s, i := at(base), uint64(index)
	slot := s.slot(i)
	state := loadAcquire(slot)
	if state&0xff == slotFilled || state&0xff == slotFree {
		store64(slot+slotLast*8, 0)
	}
	if state&0xff == slotFilled {
		harvest(s, slot)
		state = state &^ 0xff
		storeRelease(slot, state)
	}
	if load64(uintptr(unsafe.Pointer(&s.quiet))) != 0 {
		return 0
	}
	p := uintptr(load64(s.procs + uintptr(i)*8))
	if load32(p+s.off.pStatus) != pRunning {
		return 0
	}
	m := uintptr(load64(p + s.off.pM))
	if m == 0 {
		return 0
	}
	fence()
	g := uintptr(load64(m + s.off.mCurG))
	tid := load64(m + s.off.mProcID)
	fence()
	if uintptr(load64(p+s.off.pM)) != m || g == 0 || tid == 0 || tid == s.tid {
		return 0
	}
	if !onCPU(s, g, m) {
		return 0 // in a system call: nothing to interrupt, it is visited
	}
	if state&0xff != slotFree {
		// Not answered yet. The thread waits for a core, and then it will record
		// just what it was at, and still is at this tick, or it blocks the signal
		// for now.
		if uintptr(load64(slot+slotM*8)) == m && s.ticks-load64(slot+slotSince*8) < 1000 {
			store64(slot+slotTime*8, s.now)
			return 0
		}
		if state&0xff != slotSent || !cas64(slot, state, (state&^0xff)+0x100) {
			return 0
		}
		s.lost++
		state = (state &^ 0xff) + 0x100
	}
	gen := state >> 8 & 0xffffffff
	store64(slot+slotM*8, uint64(m))
	store64(slot+slotTID*8, tid)
	store64(slot+slotTime*8, s.now)
	store64(slot+slotBefore*8, s.before)
	store64(slot+slotSince*8, s.ticks)
	storeRelease(slot, state&^0xff|slotSent)
	s.info[0] = s.signal
	s.info[1] = uint64(siQueue)
	s.info[2] = s.pid
	s.info[3] = s.tag>>48<<48 | gen<<16 | i
	s.sent++
	store64(slot+slotLast*8, uint64(g))
	if r := rawSyscall(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(s.pid), uintptr(tid), uintptr(s.signal), uintptr(unsafe.Pointer(&s.info)), 0, 0); r != 0 {
		s.refused = uint64(-r)
		if -r != uintptr(unix.ESRCH) {
			s.lost++
		}
		cas64(slot, state&^0xff|slotSent, (state&^0xff)+0x100)
	}
	return 0
}

// harvest copies a filled slot's record to the ring.
//
//go:nosplit
//go:norace
//go:nocheckptr
func harvest(s *shared, slot uintptr) {
	n := load64(slot + slotCount*8)
	if n == 0 {
		return
	}
	if !room(s, n) {
		s.dropped++
		return
	}
	to := s.words(s.write)
	for i := uintptr(0); i < uintptr(n); i++ {
		store64(to+i*8, load64(slot+(slotRecord+i)*8))
	}
	s.write += n
}

// onInterrupt records the goroutine that this thread runs. It returns 0 if the
// runtime has not asked this thread for anything. The runtime sets m.signalPending
// before it sends its signal, so one that was lost in ours shows here; one that is
// yet to come is handled twice, which is as good.
//
//go:nosplit
//go:norace
//go:nocheckptr
func onInterrupt(base, value, ctx, _ uintptr) uintptr {
	s := at(base)
	i, gen := uint64(value)&0xffff, uint64(value)>>16&0xffffffff
	if i >= maxProcs {
		return 1
	}
	slot := s.slot(i)
	if !cas64(slot, gen<<8|slotSent, gen<<8|slotFilling) {
		// Too late for that. Where a thread had no core for a while its P can have gone to
		// another and come back, and what was sent then was lost in this one.
		callOther(base, ctx, 0, 0)
		return 1
	}
	return fill(s, slot, gen, ctx)
}

// onOther is told of a signal that is not ours: if this thread owes an answer, ours
// may have been lost in it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func onOther(base, ctx, _, _ uintptr) uintptr {
	s := at(base)
	tid := uint64(rawSyscall(unix.SYS_GETTID, 0, 0, 0, 0, 0, 0))
	n := loadAcquire(uintptr(unsafe.Pointer(&s.nprocs)))
	for i := uint64(0); i < n; i++ {
		slot := s.slot(i)
		st := loadAcquire(slot)
		if st&0xff == slotSent && load64(slot+slotTID*8) == tid && cas64(slot, st, st&^0xff|slotFilling) {
			fill(s, slot, st>>8, ctx)
		}
	}
	return 0
}

// fill answers for a slot that the thread has taken, and returns what onInterrupt does.
//
//go:nosplit
//go:norace
//go:nocheckptr
func fill(s *shared, slot uintptr, gen uint64, ctx uintptr) uintptr {
	t := cycles()
	store64(slot+slotAsked*8, 1)
	n := uint64(callRecord(s.base(), slot, ctx, 0))
	store64(slot+slotCount*8, n)
	add64(uintptr(unsafe.Pointer(&s.answered)), 1)
	if n == 0 {
		add64(uintptr(unsafe.Pointer(&s.unread)), 1)
	}
	add64(uintptr(unsafe.Pointer(&s.handling)), cycles()-t)
	asked := uintptr(load64(slot + slotAsked*8))
	storeRelease(slot, gen<<8|slotFilled)
	return asked
}
