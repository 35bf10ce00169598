//go:build linux && (amd64 || arm64)

package native

import (
	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
)

// What records of stacks have in common.

// clearHead clears the words of a record's head from the first one to the last one.
//
//go:nosplit
//go:norace
//go:nocheckptr
func clearHead(rec, first, last uintptr) {
	for i := first; i <= last; i++ {
		mem.Store64(rec+i*8, 0)
	}
}

// beginHead clears a record's head and writes the times, the thread and its CPU time.
//
//go:nosplit
//go:norace
//go:nocheckptr
func beginHead(rec uintptr, time, before, tid, clock uint64) {
	clearHead(rec, 0, headWords-1)
	mem.Store64(rec+headTime*8, time)
	mem.Store64(rec+headBefore*8, before)
	mem.Store64(rec+headTID*8, tid)
	mem.Store64(rec+headClock*8, clock)
}

// recordNear records the words at SP and next to the first return addresses. With them the drain
// adds a caller that the frame pointer chain misses.
//
//go:nosplit
//go:norace
//go:nocheckptr
func recordNear(s *shared, rec, sp, bp, hi uintptr) {
	lo := sp - frameSlack
	mem.Store64(rec+headSP0*8, s.CodeWord(sp, lo, hi))
	mem.Store64(rec+headSP1*8, s.CodeWord(sp+8, lo, hi))
	first, second := uint64(0), uint64(0)
	if bp >= lo && bp <= hi-16 {
		first = s.CodeWord(bp+16, lo, hi)
		if up := uintptr(goruntime.Word(bp, lo, hi)); up > bp && up < hi {
			second = s.CodeWord(up+16, lo, hi)
		}
	}
	mem.Store64(rec+headFrame0*8, first)
	mem.Store64(rec+headFrame1*8, second)
}

var callNear = recordNear

// describe writes the part of a record's head that describes the goroutine itself, without the
// times. It returns flags for the record.
//
//go:nosplit
//go:norace
//go:nocheckptr
func describe(s *shared, rec, g uintptr, index uint64) uint64 {
	mem.Store64(rec+headG*8, uint64(g))
	mem.Store64(rec+headGoid*8, mem.Load64(g+s.Off.GID))
	mem.Store64(rec+headParent*8, mem.Load64(g+s.Off.GParent))
	mem.Store64(rec+headGoPC*8, mem.Load64(g+s.Off.GGoPC))
	mem.Store64(rec+headStartPC*8, mem.Load64(g+s.Off.GStartPC))
	mem.Store64(rec+headLabels*8, mem.Load64(g+s.Off.GLabels))
	mem.Store64(rec+headIndex*8, index)
	if mem.Load64(g+s.Off.GBubble) != 0 {
		return flagBubble
	}
	return 0
}

var callDescribe = describe

// finish appends the labels to a record with n PCs and completes its first word, which has
// status, reason and flags already. It returns the number of words of the record.
//
//go:nosplit
//go:norace
//go:nocheckptr
func finish(s *shared, rec, n, scratch uintptr) uintptr {
	labels := callLabels(s, uintptr(mem.Load64(rec+headLabels*8)), rec+(headWords+n)*8, scratch)
	flags := uint64(0)
	if n >= goruntime.MaxDepth {
		flags = flagCut << 48
	}
	words := headWords + n + labels
	mem.Store64(rec, mem.Load64(rec)|recStack|uint64(words)<<8|flags)
	mem.Store64(rec+headCounts*8, mem.Load64(rec+headCounts*8)|uint64(n)|uint64(labels)<<32)
	return words
}

var callFinish = finish

// runsOf returns headRuns for a goroutine that runs with an M.
//
//go:nosplit
//go:norace
//go:nocheckptr
func runsOf(s *shared, g, m uintptr) uint64 {
	p := uintptr(mem.Load64(m + s.Off.MP))
	if p == 0 {
		return 0
	}
	return uint64(mem.Load8(g+s.Off.GTrackingSeq)) | uint64(mem.Load32(p+s.Off.PSyscallTick))<<8 | uint64(p)<<34
}

// link puts the link register, on processors that have one, before the words at SP in a record.
//
//go:nosplit
//go:norace
//go:nocheckptr
func link(s *shared, rec, ctx uintptr) {
	if ctxLR != 0 {
		mem.Store64(rec+headSP1*8, mem.Load64(rec+headSP0*8))
		mem.Store64(rec+headSP0*8, s.OnlyCode(mem.Load64(ctx+ctxLR)))
	}
}
