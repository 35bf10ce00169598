//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/cost"
)

// Records of running goroutines.

// onCPU reports whether the goroutine of an M runs. Some goroutines have the status waiting
// while they run on the system stack, as in a GC assist; their wait reason shows that.
//
//go:nosplit
//go:norace
//go:nocheckptr
func onCPU(s *shared, g, m uintptr) bool {
	switch mem.Load32(g+s.Off.GStatus) &^ goruntime.GScan {
	case goruntime.GRunning, goruntime.GCopying:
		return true
	case goruntime.GWaiting:
		return uintptr(mem.Load64(g+s.Off.GM)) == m && s.system>>(mem.Load8(g+s.Off.GWaitReason)&63)&1 != 0
	}
	return false
}

// recordRunning writes a record of the goroutine that was interrupted on this thread to a slot. It
// returns the number of words, 0 if there is no such goroutine. If the stack cannot be read, the
// record has no PCs.
//
// It checks that the M belongs to this thread. Then the M and its curg are valid, because an M
// that has ended has no thread.
//
//go:nosplit
//go:norace
//go:nocheckptr
func recordRunning(s *shared, slot, ctx uintptr) uintptr {
	m := uintptr(mem.Load64(slot + slotM*8))
	tid := uint64(mem.Syscall(unix.SYS_GETTID, 0, 0, 0, 0, 0, 0))
	if tid != mem.Load64(slot+slotTID*8) || mem.Load64(m+s.Off.MProcID) != tid {
		return 0
	}
	mem.Store64(slot+slotAsked*8, uint64(mem.Load32(m+s.Off.MSignalPending)))
	g := uintptr(mem.Load64(m + s.Off.MCurG))
	if g == 0 || uintptr(mem.Load64(g+s.Off.GM)) != m {
		return 0 // the scheduler was running on this thread
	}
	rec := slot + slotRecord*8
	beginHead(rec, mem.Load64(slot+slotTime*8), mem.Load64(slot+slotBefore*8), tid, cpuClock(unix.CLOCK_THREAD_CPUTIME_ID, rec+maxRecord*8))
	if sent := mem.Load64(slot + slotFirst*8); sent != mem.Load64(slot+slotTime*8) {
		mem.Store64(rec+headSent*8, sent)
	}
	mem.Store64(rec+headRuns*8, runsOf(s, g, m))
	n := uintptr(0)
	switch {
	case onCPU(s, g, m):
		mem.Store64(rec, goruntime.GRunning<<32|(callDescribe(s, rec, g, ^uint64(0))|flagRunning|flagTaken)<<48)
		n = callStack(s, rec, ctx)
	case mem.Load32(g+s.Off.GStatus)&^goruntime.GScan == goruntime.GSyscall:
		flags := goruntime.GSyscall<<32 | (callDescribe(s, rec, g, ^uint64(0))|flagTaken)<<48
		sp := uintptr(mem.Load64(ctx + ctxSP))
		if sp >= uintptr(mem.Load64(g+s.Off.GStackLo)) && sp < uintptr(mem.Load64(g+s.Off.GStackHi)) {
			mem.Store64(rec, flags|flagRunning<<48)
			n = callStack(s, rec, ctx)
		}
		if n == 0 {
			mem.Store64(rec, flags)
			n = callSyscall(s, rec, g)
		}
	default:
		return 0
	}
	if n == 0 {
		mem.Store64(rec, mem.Load64(rec)|flagBare<<48)
		mem.Store64(rec+headCounts*8, 0)
	}
	return callFinish(s, rec, n, rec+maxRecord*8)
}

var callRecord = recordRunning

// recordSyscall walks a goroutine that had entered a system call on this thread before the
// signal arrived.
//
//go:nosplit
//go:norace
//go:nocheckptr
func recordSyscall(s *shared, rec, g uintptr) uintptr {
	lo, hi := uintptr(mem.Load64(g+s.Off.GStackLo)), uintptr(mem.Load64(g+s.Off.GStackHi))
	sp := uintptr(mem.Load64(g + s.Off.GSyscallSP))
	if !goruntime.OneStack(lo, hi) || sp < lo || sp >= hi {
		return 0
	}
	mem.Store64(rec+headCounts*8, 0)
	pcs := rec + headWords*8
	mem.Store64(pcs, mem.Load64(g+s.Off.GSyscallPC))
	n, _ := goruntime.Walk(&s.View, pcs, 1, uintptr(mem.Load64(g+s.Off.GSyscallBP)), sp-frameSlack, hi)
	return uintptr(n)
}

var callSyscall = recordSyscall

// recordStack walks the goroutine of a record, starting from the registers of its thread.
//
//go:nosplit
//go:norace
//go:nocheckptr
func recordStack(s *shared, rec, ctx uintptr) uintptr {
	g := uintptr(mem.Load64(rec + headG*8))
	pcs := rec + headWords*8
	lo, hi := uintptr(mem.Load64(g+s.Off.GStackLo)), uintptr(mem.Load64(g+s.Off.GStackHi))
	sp, bp := uintptr(mem.Load64(ctx+ctxSP)), uintptr(mem.Load64(ctx+ctxBP))
	mem.Store64(pcs, mem.Load64(ctx+ctxPC))
	if !goruntime.OneStack(lo, hi) {
		return 0
	}
	if sp < lo || sp >= hi {
		return callSwitched(s, rec, g, ctx)
	}
	if !s.IsCode(mem.Load64(pcs)) {
		return callForeign(s, rec, ctx)
	}
	if ctxLR == 0 && goruntime.Lost(&s.View, sp, bp, hi) {
		if n := callUnwind(s, rec, ctx, hi); n != 0 {
			bp = uintptr(mem.Load64(rec + headSP1*8))
			clearHead(rec, headSP0, headFrame1)
			mem.Store64(rec, mem.Load64(rec)|flagUnwound<<48)
			all, _ := goruntime.Walk(&s.View, pcs, uint64(n), bp, sp, hi)
			return uintptr(all)
		}
	}
	callNear(s, rec, sp, bp, hi)
	n, _ := goruntime.Walk(&s.View, pcs, 1, bp, sp-frameSlack, hi)
	link(s, rec, ctx)
	return uintptr(n)
}

var callStack = recordStack

// recordSwitched walks a goroutine whose thread is on the system stack: that stack first, and then
// the goroutine's. It is a stage of recordStack.
//
//go:nosplit
//go:norace
//go:nocheckptr
func recordSwitched(s *shared, rec, g, ctx uintptr) uintptr {
	m, pcs := uintptr(mem.Load64(g+s.Off.GM)), rec+headWords*8
	lo, hi := uintptr(mem.Load64(g+s.Off.GStackLo)), uintptr(mem.Load64(g+s.Off.GStackHi))
	if !goruntime.OneStack(lo, hi) {
		return 0
	}
	n := uint64(callSystem(s, rec, m, ctx))
	if n == 0 {
		return callForeign(s, rec, ctx)
	}
	bp := uintptr(mem.Load64(pcs + uintptr(n)*8))
	if bp >= lo && bp < hi {
		// With systemstack the frame pointer chain goes on from one stack to the other.
		n, _ = goruntime.Walk(&s.View, pcs, n, bp, lo, hi)
	} else if ctxLR == 0 && inVDSO(s, m, lo, hi) {
		// In the vDSO, which may not keep frame pointers. The runtime has saved the place
		// of the call.
		vsp := uintptr(mem.Load64(m + s.Off.MVDSOSP))
		mem.Store64(rec, mem.Load64(rec)|flagVDSO<<48)
		mem.Store64(rec+headCounts*8, 0)
		mem.Store64(pcs, mem.Load64(vsp-8))
		n, _ = goruntime.Walk(&s.View, pcs, 1, uintptr(mem.Load64(vsp-16)), lo, hi)
	} else if ctxLR == 0 && mem.Load32(g+s.Off.GStatus) == goruntime.GCopying {
		mem.Store64(rec, mem.Load64(rec)|flagSaved<<48)
		mem.Store64(rec+headFrame0*8, 0)
		n = goruntime.UnwindAll(&s.View, pcs, n, uintptr(mem.Load64(g+s.Off.GSchedPC)), uintptr(mem.Load64(g+s.Off.GSchedSP)), lo, hi)
	} else if n < goruntime.MaxDepth {
		mem.Store64(rec, mem.Load64(rec)|flagSaved<<48)
		mem.Store64(pcs+uintptr(n)*8, mem.Load64(g+s.Off.GSchedPC))
		// The return address of the goroutine's function, which is needed in morestack.
		caller := mem.Load64(g + s.Off.GSchedLR)
		if ctxLR == 0 {
			caller = goruntime.Word(uintptr(mem.Load64(g+s.Off.GSchedSP)), lo, hi)
		}
		mem.Store64(rec+headFrame0*8, s.OnlyCode(caller))
		n, _ = goruntime.Walk(&s.View, pcs, n+1, uintptr(mem.Load64(g+s.Off.GSchedBP)), lo, hi)
	}
	link(s, rec, ctx)
	return uintptr(n)
}

var callSwitched = recordSwitched

// inVDSO reports whether a thread has called the vDSO from the stack [lo, hi): m.vdsoSP
// must be on that stack, and the word below it must be m.vdsoPC, the return address. So Start need
// not check these fields.
//
//go:nosplit
//go:norace
//go:nocheckptr
func inVDSO(s *shared, m, lo, hi uintptr) bool {
	sp := uintptr(mem.Load64(m + s.Off.MVDSOSP))
	return sp >= lo+16 && sp < hi && mem.Load64(sp-8) == mem.Load64(m+s.Off.MVDSOPC)
}

// walkSystem writes the PCs of a thread that is on its system stack to a record, and then the frame
// pointer at which the walk ended. It returns the number of PCs, 0 if the thread is on another
// stack. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func walkSystem(s *shared, rec, m, ctx uintptr) uintptr {
	pcs := rec + headWords*8
	sp, bp := uintptr(mem.Load64(ctx+ctxSP)), uintptr(mem.Load64(ctx+ctxBP))
	g0 := uintptr(mem.Load64(m + s.Off.MG0))
	lo, hi := uintptr(mem.Load64(g0+s.Off.GStackLo)), uintptr(mem.Load64(g0+s.Off.GStackHi))
	if sp < lo || sp >= hi {
		return 0
	}
	mem.Store64(pcs, mem.Load64(ctx+ctxPC))
	callNear(s, rec, sp, bp, hi)
	if ctxLR == 0 && !s.IsCode(mem.Load64(pcs)) && inVDSO(s, m, lo, hi) {
		// The runtime has called the vDSO on the system stack.
		vsp := uintptr(mem.Load64(m + s.Off.MVDSOSP))
		mem.Store64(rec, mem.Load64(rec)|flagVDSO<<48)
		mem.Store64(pcs, mem.Load64(vsp-8))
		bp = uintptr(mem.Load64(vsp - 16))
	}
	n, up := goruntime.Walk(nil, pcs, 1, bp, sp-frameSlack, hi)
	mem.Store64(rec+headCounts*8, n<<16)
	mem.Store64(pcs+uintptr(n)*8, uint64(up))
	return uintptr(n)
}

var callSystem = walkSystem

// Code that does not keep a frame pointer. Assembly may use BP for something else, as the hash
// functions and ciphers of the standard library do. The frame pointer chain is then lost until
// the assembly function returns. The linker's tables have, for each instruction, the distance
// from SP to the return address, for assembly too. The caller of the assembly has a frame, and
// the chain goes on there. The tables are read-only memory of the program.
//
// Only amd64 needs this: on arm64 assembly does not touch R29.

// unwind writes the interrupted PC and the return addresses of the functions without a frame to
// a record. It writes the frame pointer of the first function with a frame to headSP1. It
// returns the number of PCs, 0 if the tables are of no help.
//
//go:nosplit
//go:norace
//go:nocheckptr
func unwind(s *shared, rec, ctx, hi uintptr) uintptr {
	pcs := rec + headWords*8
	pc, sp := uintptr(mem.Load64(ctx+ctxPC)), uintptr(mem.Load64(ctx+ctxSP))
	mem.Store64(pcs, uint64(pc))
	for n := uintptr(1); n < 4; n++ {
		delta := goruntime.CallDelta(&s.View, pc)
		ret := sp + delta
		if delta > 1<<20 || ret > hi-8 || ret&7 != 0 {
			return 0
		}
		if n > 1 && delta >= 8 {
			mem.Store64(rec+headSP1*8, uint64(ret-8))
			return n
		}
		caller := mem.Load64(ret)
		if !s.IsCode(caller) {
			return 0
		}
		mem.Store64(pcs+n*8, caller)
		pc, sp = uintptr(caller)-1, ret+8
	}
	return 0
}

var callUnwind = unwind

// The handler's part of goroutines whose stack cannot be read, or not all of it (complete.go).

// mostForeign bounds the frames on a foreign stack, mostOfFrame the size in bytes of the frame of
// the function that has called foreign code.
const mostForeign, mostOfFrame = 32, 4096

// foreign records a goroutine in code that Go does not know, or on a stack that it does not know.
// It writes the interrupted PC, and the PCs from the first frame on the goroutine's stack on. It is
// a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func foreign(s *shared, rec, ctx uintptr) uintptr {
	pcs, scratch := rec+headWords*8, rec+maxRecord*8
	g := uintptr(mem.Load64(rec + headG*8))
	lo, hi := uintptr(mem.Load64(g+s.Off.GStackLo)), uintptr(mem.Load64(g+s.Off.GStackHi))
	clearHead(rec, headSP0, headFrame1)
	mem.Store64(rec, mem.Load64(rec)|flagForeign<<48)
	mem.Store64(pcs, mem.Load64(ctx+ctxPC))
	bp := uintptr(mem.Load64(ctx + ctxBP))
	for i := 0; i < mostForeign && bp != 0 && bp&7 == 0; i++ {
		if bp >= lo && bp <= hi-16 {
			if s.IsCode(mem.Load64(bp + 8)) {
				callCaller(s, rec, bp, lo)
				n, _ := goruntime.Walk(&s.View, pcs, 1, bp, lo, hi)
				return uintptr(n)
			}
			bp = uintptr(mem.Load64(bp))
			continue
		}
		if mem.PlainReads || !vmRead(s, bp, scratch+64, 8, scratch) {
			break
		}
		bp = uintptr(mem.Load64(scratch + 64))
	}
	return 1
}

var callForeign = foreign

// caller finds the function that has called foreign code, of which only the frame pointer is known.
// Its last call has left a return address below its frame, where the tables for tracebacks say that
// the frame ends. Another function may have left one too, when it had its frame there. So caller
// writes the first two that it finds to headSP0 and headSP1. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func caller(s *shared, rec, bp, lo uintptr) {
	if ctxLR != 0 {
		return // the return address is not in the frame
	}
	found := uintptr(0)
	for size := uintptr(8); size < mostOfFrame && size <= bp-lo && found < 2; size += 8 {
		ret := mem.Load64(bp - size)
		if s.IsCode(ret) && goruntime.CallDelta(&s.View, uintptr(ret)-1) == size {
			mem.Store64(rec+(headSP0+found)*8, ret)
			found++
		}
	}
}

var callCaller = caller

// blockedAfter is the CPU time in ns that a thread may use before it answers a signal. If it uses
// more, it blocks the signal: a thread that gets a core takes it at once, unless it is in the
// kernel, as for a page fault.
const blockedAfter = 2e6

// recordBlocked records the goroutine of a thread that blocks our signal. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func recordBlocked(s *shared, slot, g uintptr, tid uint64) {
	if s.now-mem.Load64(slot+slotChecked*8) < blockedAfter {
		return
	}
	mem.Store64(slot+slotChecked*8, s.now)
	clock := cpuClock(cost.ThreadClock(tid), uintptr(unsafe.Pointer(&s.timespec)))
	before := mem.Load64(slot + slotClock*8)
	if before != 0 && clock-before < blockedAfter {
		return
	}
	mem.Store64(slot+slotClock*8, clock)
	if before == 0 || !room(s, maxRecord) {
		return
	}
	rec := s.words(s.write)
	beginHead(rec, s.now, s.before, tid, clock)
	mem.Store64(rec+headRuns*8, runsOf(s, g, uintptr(mem.Load64(slot+slotM*8))))
	mem.Store64(rec, goruntime.GRunning<<32|(callDescribe(s, rec, g, ^uint64(0))|flagBare)<<48)
	s.write += uint64(callFinish(s, rec, 0, uintptr(unsafe.Pointer(&s.scratch))))
}

var callBlocked = recordBlocked
