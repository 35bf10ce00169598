//go:build linux && (amd64 || arm64)

package goruntime

import "github.com/gotach/profiler/internal/mem"

// Walks along frame pointers. Stack memory is never unmapped while the program runs, and a walk
// checks that each frame pointer is within its bounds. So the worst that it can read is a stale
// word. hi is above lo and far from 0, so the comparisons do not overflow.

// MaxDepth is the number of frames of a stack that are read, the innermost ones.
const MaxDepth = 256

// Walk appends return addresses to the n PCs at dst. It follows frame pointers from bp upward
// while they are in [lo, hi). On a goroutine's stack v is given, and a return address must be in
// Go code. On a system stack, which can have frames of C, v is nil. Walk returns the number of
// PCs at dst and the frame pointer at which it ended.
//
//go:nosplit
//go:norace
//go:nocheckptr
func Walk(v *View, dst uintptr, n uint64, bp, lo, hi uintptr) (uint64, uintptr) {
	for n < MaxDepth && bp >= lo && bp <= hi-16 && bp&7 == 0 {
		ret := mem.Load64(bp + 8)
		if ret < 4096 || v != nil && !v.IsCode(ret) {
			break
		}
		mem.Store64(dst+uintptr(n)*8, ret)
		n++
		up := uintptr(mem.Load64(bp))
		if up != 0 && (up <= bp || up >= hi) && callbackFrame != 0 {
			// Perhaps C has called Go here. The drain finds out.
			if back := bp + callbackFrame; back <= hi-16 && n < MaxDepth && uintptr(mem.Load64(back)) > back && uintptr(mem.Load64(back)) < hi {
				up = back
			}
		}
		if up <= bp {
			return n, up
		}
		bp = up
	}
	return n, bp
}

// OneStack reports whether two bounds can belong to the same stack. They are two words, so a
// racing read can get one from an old and one from a new stack. Sizes of stacks are powers of
// two (stackalloc).
//
//go:nosplit
//go:norace
//go:nocheckptr
func OneStack(lo, hi uintptr) bool {
	return hi > lo && (hi-lo)&(hi-lo-1) == 0
}

// Word reads a word of the stack [lo, hi). It returns 0 for an address outside it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func Word(addr, lo, hi uintptr) uint64 {
	if addr < lo || addr > hi-8 || addr&7 != 0 {
		return 0
	}
	return mem.Load64(addr)
}

// Lost reports whether bp is not a frame pointer. A frame pointer is between sp and hi, and the
// word above it is a return address.
//
//go:nosplit
//go:norace
//go:nocheckptr
func Lost(v *View, sp, bp, hi uintptr) bool {
	if bp < sp || bp > hi-16 || bp&7 != 0 {
		return true
	}
	return !v.IsCode(mem.Load64(bp + 8))
}

// UnwindAll appends the PCs of a stack to the n at dst, by the tables alone. While the runtime
// copies a stack, frame pointers may still be those of the old one. It returns the number of PCs.
//
//go:nosplit
//go:norace
//go:nocheckptr
func UnwindAll(v *View, dst uintptr, n uint64, pc, sp, lo, hi uintptr) uint64 {
	for at := pc; n < MaxDepth && sp >= lo && sp < hi && v.IsCode(uint64(pc)); n++ {
		mem.Store64(dst+uintptr(n)*8, uint64(pc))
		delta := CallDelta(v, at)
		ret := sp + delta
		if delta > 1<<20 || ret > hi-8 || ret&7 != 0 {
			return n + 1
		}
		pc, sp = uintptr(mem.Load64(ret)), ret+8
		at = pc - 1
	}
	return n
}

// CodeWord is Word, but returns 0 also for a word that is not an address of Go code.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (v *View) CodeWord(addr, lo, hi uintptr) uint64 {
	w := Word(addr, lo, hi)
	if !v.IsCode(w) {
		return 0
	}
	return w
}
