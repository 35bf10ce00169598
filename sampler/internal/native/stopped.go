//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
)

// A goroutine may wake up while it is visited. So a walk counts only if all of these conditions
// hold after it:
//
//   - The status is the same, without the scan bit. With that bit the stack may be moving.
//   - The goid, the stack bounds and the stack pointer are the same.
//   - The trackingSeq is the same. The runtime increments it each time a goroutine stops
//     running. It has 8 bits and wraps around, so the time of a walk is bounded.
//   - The wait reason is the same. A coroutine stops running without a new trackingSeq. If the
//     reason is that of coroutines, many walks must give the same result (see confirm).
//   - A parked goroutine has no g.m. It is still set when the runtime increments trackingSeq.
//   - From Go 1.26 on a system call does not increment trackingSeq. But its end increments the
//     syscalltick of the P with which the goroutine entered it. If that P is not known, because
//     the runtime has taken it away, a second walk must give the same result.

// rest describes where a goroutine that does not run has stopped. It also has the counters that
// later show whether the goroutine has run since.
type rest struct {
	lo, hi, sp, bp uintptr
	pc             uint64
	seq            uint8 // trackingSeq
	reason         uint8
	p              uintptr // in a system call: the P with which it was entered, 0 if that is not known
	tick           uint32  // syscalltick of p
}

// read reads where a goroutine has stopped. It returns false if the goroutine is no longer in
// the state that visit saw, or if what it read is inconsistent.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (r *rest) read(s *shared, g uintptr) bool {
	m := uintptr(s.seenM)
	mem.Fence()
	r.seq = mem.Load8(g + s.Off.GTrackingSeq)
	mem.Fence()
	if uint64(mem.Load32(g+s.Off.GStatus)) != s.seenStatus || uintptr(mem.Load64(g+s.Off.GM)) != m {
		return false
	}
	r.lo, r.hi = uintptr(mem.Load64(g+s.Off.GStackLo)), uintptr(mem.Load64(g+s.Off.GStackHi))
	r.reason = mem.Load8(g + s.Off.GWaitReason)
	r.p, r.tick = 0, 0
	if s.seenStatus == goruntime.GSyscall {
		r.sp, r.pc, r.bp = uintptr(mem.Load64(g+s.Off.GSyscallSP)), mem.Load64(g+s.Off.GSyscallPC), uintptr(mem.Load64(g+s.Off.GSyscallBP))
		if r.p = oldP(s, m); r.p != 0 {
			r.tick = mem.Load32(r.p + s.Off.PSyscallTick)
		}
	} else {
		r.sp, r.pc, r.bp = uintptr(mem.Load64(g+s.Off.GSchedSP)), mem.Load64(g+s.Off.GSchedPC), uintptr(mem.Load64(g+s.Off.GSchedBP))
	}
	mem.Fence()
	return goruntime.OneStack(r.lo, r.hi) && uintptr(mem.Load64(g+s.Off.GStackLo)) == r.lo && uintptr(mem.Load64(g+s.Off.GStackHi)) == r.hi &&
		r.sp >= r.lo && r.sp < r.hi && r.pc >= 4096
}

// holds reports whether the goroutine has not run since read. If so, the n PCs at pcs belong to
// one stack.
//
// A goroutine that runs again has changed its status before it writes its stack, for other
// processors too: on amd64 they see stores in their order. On arm64 the runtime changes the status
// with a compare-and-swap of acquire and release. A goroutine that waits becomes runnable first.
// The second change, to running, reads the first one with acquire, and the stores to the stack come
// after that load, so whoever sees them sees at least the first change. A goroutine that is
// runnable has only the second change. Without LSE (before ARMv8.1) that is a pair of exclusive
// load and store, and the architecture lets the stores to the stack overtake the latter. Then, in
// the nanoseconds that this takes, a walk could take return addresses of before and after. All are
// within the stack's bounds, so nothing worse follows than a sample with a wrong stack.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (r *rest) holds(s *shared, g, pcs uintptr, n uint64) bool {
	m := uintptr(s.seenM)
	sp := s.Off.GSchedSP
	if s.seenStatus == goruntime.GSyscall {
		sp = s.Off.GSyscallSP
		if oldP(s, m) != r.p || r.p != 0 && mem.Load32(r.p+s.Off.PSyscallTick) != r.tick ||
			r.p == 0 && !again(pcs, n, r.bp, r.sp-frameSlack, r.hi) {
			return false
		}
	}
	if uintptr(mem.Load64(g+sp)) != r.sp || uintptr(mem.Load64(g+s.Off.GStackLo)) != r.lo || uintptr(mem.Load64(g+s.Off.GStackHi)) != r.hi ||
		uintptr(mem.Load64(g+s.Off.GM)) != m || mem.Load64(g+s.Off.GID) != s.seenGoid ||
		uint64(mem.Load32(g+s.Off.GStatus)) != s.seenStatus || mem.Load8(g+s.Off.GWaitReason) != r.reason {
		return false
	}
	mem.Fence()
	return mem.Load8(g+s.Off.GTrackingSeq) == r.seq
}

// again walks the stack a second time and reports whether the PCs are the same.
//
//go:nosplit
//go:norace
//go:nocheckptr
func again(pcs uintptr, n uint64, bp, lo, hi uintptr) bool {
	for i := uint64(1); i < n; i++ {
		if bp < lo || bp > hi-16 || bp&7 != 0 || mem.Load64(bp+8) != mem.Load64(pcs+uintptr(i)*8) {
			return false
		}
		bp = uintptr(mem.Load64(bp))
	}
	return true
}

// oldP returns the P that the M had when it entered its system call, 0 if the roster does not
// have that P: then the pointer may be stale.
//
//go:nosplit
//go:norace
//go:nocheckptr
func oldP(s *shared, m uintptr) uintptr {
	if m == 0 {
		return 0
	}
	p := uintptr(mem.Load64(m + s.Off.MOldP))
	for i := uint64(0); i < s.nprocs; i++ {
		if uintptr(mem.Load64(s.procs+uintptr(i)*8)) == p {
			return p
		}
	}
	return 0
}

// Visits to coroutines, those of iter.Pull. Nothing in a goroutine tells whether a coroutine has
// run since: runtime.coroswitch changes no counter, and stops it at the same place with the same
// stack pointer. So a walk can begin at one stop and end at a later one, and find a stack that
// never was.
//
// So there are many walks, at random distances. What all of them have found counts. A walk of two
// stops finds the same wrong stack as the walk before only if the coroutine has run at the same
// point of both, and between them. As the distances are random, walk after walk, that does not
// happen in all.

const (
	sameWalks = 24  // walks that must find the same
	mostWalks = 120 // those during which the coroutine ran do not count
	walksGap  = 255 // cycles between two walks, at most; a mask
	walksTime = 8   // all walks may take so many times tornAfter
)

// tooLate is the result of confirm if this thread has lost its core.
const tooLate = ^uintptr(0)

// confirm repeats a walk of a coroutine that has found n PCs. It returns the number of PCs, 0 if
// the coroutine runs too often to tell where it has stopped. It is a stage. restAt is the address
// of a rest.
//
//go:nosplit
//go:norace
//go:nocheckptr
func confirm(s *shared, g, n, restAt uintptr) uintptr {
	r := *(**rest)(unsafe.Pointer(&restAt))
	pcs := s.words(s.write) + headWords*8
	again := pcs + goruntime.MaxDepth*8
	walks := 0
	ran := !r.holds(s, g, pcs, uint64(n))
	if !ran {
		walks++
	}
	start := mem.Cycles()
	for i := 0; i < mostWalks && walks < sameWalks && mem.Cycles()-start < walksTime*s.tornAfter; i++ {
		for from, gap := mem.Cycles(), s.chance()&walksGap; mem.Cycles()-from < gap; {
		}
		if !r.holds(s, g, pcs, uint64(n)) {
			ran = true
			continue
		}
		mem.Store64(again, r.pc)
		m, _ := goruntime.Walk(&s.View, again, 1, r.bp, r.sp-frameSlack, r.hi)
		if !r.holds(s, g, pcs, uint64(n)) {
			ran = true
			continue
		}
		if walks++; walks == 1 { // the coroutine ran during the first walk
			n = uintptr(m)
			for i := uintptr(0); i < n; i++ {
				mem.Store64(pcs+i*8, mem.Load64(again+i*8))
			}
			continue
		}
		for i := uintptr(0); i < n; i++ {
			if uintptr(m) != n || mem.Load64(pcs+i*8) != mem.Load64(again+i*8) {
				return 0
			}
		}
	}
	switch {
	case walks == sameWalks:
		return n
	case ran:
		return 0
	}
	return tooLate
}

var callConfirm = confirm
