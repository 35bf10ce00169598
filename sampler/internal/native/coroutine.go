//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
)

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
