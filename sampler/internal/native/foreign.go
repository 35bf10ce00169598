//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/tachyon"
)

// Goroutines that run, but whose stack cannot be read, or not all of it. They are recorded nevertheless: the
// goroutine, that it runs, and its CPU time are known.
//
// Compilers of other languages run their code on stacks of their own, which may be in the Go heap. Go has no
// tables for that code, and has not noted where it was called. Mostly the frame pointer chain leads back to
// the goroutine's stack: such code keeps frame pointers too, or leaves the register alone.

// mostForeign bounds the frames on a foreign stack, mostOfFrame the size in bytes of the frame of the function that
// has called foreign code.
const mostForeign, mostOfFrame = 32, 4096

// foreign records a goroutine in code that Go does not know, or on a stack that it does not know. It writes the interrupted PC,
// and the PCs from the first frame on the goroutine's stack on. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func foreign(s *shared, rec, ctx uintptr) uintptr {
	pcs, scratch := rec+headWords*8, rec+maxRecord*8
	g := uintptr(mem.Load64(rec + headG*8))
	lo, hi := uintptr(mem.Load64(g+s.Off.GStackLo)), uintptr(mem.Load64(g+s.Off.GStackHi))
	for i := uintptr(headSP0); i <= headFrame1; i++ {
		mem.Store64(rec+i*8, 0)
	}
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
		if s.plain != 0 || !vmRead(s, bp, scratch+64, 8, scratch) {
			break
		}
		bp = uintptr(mem.Load64(scratch + 64))
	}
	return 1
}

// caller finds the function that has called foreign code, of which only the frame pointer is known. Its last call
// has left a return address below its frame, where the tables for tracebacks say that the frame ends. Another
// function may have left one too, when it had its frame there. So caller writes the first two that it finds to
// headSP0 and headSP1. It is a stage.
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

// blockedAfter is the CPU time in ns that a thread may use before it answers a signal. If it uses more, it blocks
// the signal: a thread that gets a core takes it at once, unless it is in the kernel, as for a page fault.
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
	for i := uintptr(0); i < headWords; i++ {
		mem.Store64(rec+i*8, 0)
	}
	mem.Store64(rec+headTime*8, s.now)
	mem.Store64(rec+headBefore*8, s.before)
	mem.Store64(rec+headTID*8, tid)
	mem.Store64(rec+headClock*8, clock)
	mem.Store64(rec+headRuns*8, runsOf(s, g, uintptr(mem.Load64(slot+slotM*8))))
	mem.Store64(rec, goruntime.GRunning<<32|(callDescribe(s, rec, g, ^uint64(0))|flagBare)<<48)
	s.write += uint64(callFinish(s, rec, 0, uintptr(unsafe.Pointer(&s.scratch))))
}

// noSymbols stands for the return address of code that Go has no tables for.
const noSymbols = goruntime.PCQuantum

// addForeign appends the PCs of a goroutine in foreign code. It returns false if the stack is not known
// down to its root.
func (c *completion) addForeign() bool {
	in, out := c.in, c.out
	leaf := in[0] + goruntime.PCQuantum
	_, entry, _ := c.table.Find(uintptr(in[0]))
	if len(c.pc(leaf).frames) == 0 {
		leaf = noSymbols
	}
	out = append(out, leaf)
	if len(in) > 1 {
		ret, calls := c.foreignCaller(in[1], entry)
		if leaf != noSymbols && !calls {
			out = append(out, noSymbols) // between the leaf and Go's code
		}
		if ret != 0 {
			out = append(out, ret)
		}
		out = append(out, in[1:]...)
	}
	c.out = out
	return len(in) > 1
}

// foreignCaller returns the return address in the function that has called foreign code, 0 if it is not known. next is the
// return address in that function's caller, leaf the entry of the function that runs, 0 if Go does not know that. calls
// says that the function calls leaf.
func (c *completion) foreignCaller(next uint64, leaf uintptr) (ret uint64, calls bool) {
	first, second := c.r[headSP0], c.r[headSP1]
	callee := goruntime.CallAt(uintptr(next) - goruntime.CallSize)
	if _, entry, _ := c.table.Find(callee); entry != callee {
		callee = 0 // it is not a direct call
	}
	for _, ret := range []uint64{first, second} {
		if !goruntime.IsReturn(ret) {
			continue
		}
		_, entry, _ := c.table.Find(uintptr(ret) - 1)
		calls := leaf != 0 && goruntime.CallAt(uintptr(ret)-goruntime.CallSize) == leaf
		if callee == 0 && (calls || second == 0) || callee != 0 && entry == callee {
			return ret, calls
		}
	}
	return 0, false
}

// bare returns the stack of a record whose PCs are of no use.
func (st *stacks) bare(r record) *stack {
	r[0] |= flagBare << 48
	return st.find(r)
}

// buildBare makes the stack of a goroutine whose stack is not known: what it does now, and the function
// that it began with.
func (st *stacks) buildBare(s *stack, r record) {
	s.valid = true
	s.reason = st.reason(r)
	st.addReason(s, s.reason)
	what := tachyon.FuncNotRead
	if r.flags()&flagBare == 0 {
		for _, f := range st.pc(r.pcs()[0] + goruntime.PCQuantum).frames {
			s.ids = append(s.ids, f.id)
		}
		what = tachyon.FuncNoSymbols
	}
	s.ids = append(s.ids, st.out.Frame(tachyon.Frame{Func: what}))
	if r[headStartPC] == 0 {
		return
	}
	if b := st.beginning(r); b.pc != r[headGoPC]-goruntime.PCQuantum { // else it is the go statement, which is on another stack
		s.ids, s.user = append(s.ids, b.id), b.user
	}
}
