//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/mem"
)

// The signal handler. It can run at any point of the program, on a signal stack, with every signal
// blocked, perhaps while the world is stopped. So it calls only assembly, and functions of this
// package and of packages goruntime, mem and cost that are marked go:nosplit and go:norace. None of
// them may grow the stack, allocate, write a Go pointer, panic, or be instrumented.
//
// The signal is the one that the runtime uses for preemption. It has two uses here, which
// siginfo tells apart: the timer's first tick on the tick thread, and our own
// rt_tgsigqueueinfo on threads that run goroutines. Every other signal goes to Go's handler.
//
// A thread can have only one pending signal of a number. The runtime's signal is lost while
// ours is pending, and ours is lost while the runtime's is pending. So Go's handler also runs
// after one of our signals if the runtime waits for an answer (m.signalPending). And a signal
// that is not ours makes the thread answer ours too.
//
// Some functions are stages: they are called through a variable, which nothing writes. The linker
// bounds chains of nosplit calls by the room that a goroutine's stack has left, although the
// handler runs on a signal stack. A call through a variable ends a chain. Builds without
// optimisation have long chains. What a stage gets a pointer to would be allocated on the heap, if
// it was on the stack. So the address of a variable of the caller is given as a uintptr.

// signalPC is the entry of onSignal, which sigtramp calls with the compiler's calling convention.
var signalPC = entry(onSignal)

const (
	siTimer = ^uint32(1) // si_code SI_TIMER, -2
	siTKill = ^uint32(5) // si_code SI_TKILL, -6
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
			callProbe(s)
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

var callStay = takeTicks

// onTick takes a tick.
//
//go:nosplit
//go:norace
//go:nocheckptr
func onTick(s *shared) {
	now := max(s.timeNow(uintptr(unsafe.Pointer(&s.timespec))), s.now+1)
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

var callTick = onTick

// noteProbe counts signals by which the program has preempted a thread, by the value of
// m.signalPending.
//
//go:nosplit
//go:norace
//go:nocheckptr
func noteProbe(s *shared) {
	m := s.mOfThread()
	if m == 0 {
		return
	}
	if mem.Load32(m+s.Off.MSignalPending) == 1 {
		mem.StoreRelease(uintptr(unsafe.Pointer(&s.askedM)), uint64(m))
		mem.Add64(uintptr(unsafe.Pointer(&s.probeAsked)), 1)
	} else {
		mem.Add64(uintptr(unsafe.Pointer(&s.probeOther)), 1)
	}
}

var callProbe = noteProbe

// mOfThread returns the M of the calling thread, 0 if it has no P.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) mOfThread() uintptr {
	tid := uint64(mem.Syscall(unix.SYS_GETTID, 0, 0, 0, 0, 0, 0))
	for i := uint64(0); i < mem.LoadAcquire(uintptr(unsafe.Pointer(&s.nprocs))); i++ {
		p := uintptr(mem.Load64(s.procs + uintptr(i)*8))
		if m := uintptr(mem.Load64(p + s.Off.PM)); m != 0 && mem.Load64(m+s.Off.MProcID) == tid {
			return m
		}
	}
	return 0
}
