//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/cost"
)

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
