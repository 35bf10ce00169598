//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/cost"
)

// Goroutines that run are recorded by their own threads, which a tick asks for it with a signal.
// Each P has a slot for the record.

const siQueue = ^uint32(0) // si_code SI_QUEUE, -1

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

var callInterrupt = interrupt

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

var callInterrupted = onInterrupt

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

var callOther = onOther

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

// scheduling records a thread that a tick finds in the scheduler: it has a P and runs no goroutine.
//
//go:nosplit
//go:norace
//go:nocheckptr
func scheduling(s *shared, tid uint64) {
	clock := cpuClock(cost.ThreadClock(tid), uintptr(unsafe.Pointer(&s.timespec)))
	if clock == 0 {
		return
	}
	if w := put(s, recScheduler, 3); w != 0 {
		mem.Store64(w+8, tid)
		mem.Store64(w+16, clock)
	}
}

var callScheduling = scheduling
