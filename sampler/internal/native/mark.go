//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
)

// Whether a goroutine has moved since its stack was recorded.

// mark returns a number that changes when a goroutine moves, 0 if the goroutine is not parked. It
// is not quite exact: trackingSeq has 8 bits, and the number is the same again after the goroutine
// has stopped running 256 times. Of a goroutine that moves as often as that between two ticks, one
// sample in 256 has the stack of the tick before. Coroutines do not change the number.
//
//go:nosplit
//go:norace
//go:nocheckptr
func mark(s *shared, g uintptr) uint64 {
	switch mem.Load32(g+s.Off.GStatus) &^ goruntime.GScan {
	case goruntime.GWaiting, goruntime.GLeaked:
		return markOf(mem.LoadAcquire(uintptr(unsafe.Pointer(&s.Modules))), mem.Load64(g+s.Off.GID), uint64(mem.Load8(g+s.Off.GTrackingSeq)), uint64(mem.Load8(g+s.Off.GWaitReason)))
	}
	return 0
}

//go:nosplit
//go:norace
//go:nocheckptr
func markOf(modules, goid, seq, reason uint64) uint64 {
	return 1<<63 | modules&63<<markModules | goid<<32&(1<<markModules-1) | seq<<8 | reason
}

// markModules is the lowest bit of the number of modules in a mark. A stack that was recorded
// before a plugin was known ends at the plugin's code, so all stacks are recorded anew then.
const markModules = 57

// placeBits are the bits of a recorded mark that say where its goroutine was, by the PCs of its
// stack. They are 0 in what mark returns, and of a recorded mark never all 0.
const placeBits = 0xffff << 16

// unmoved reports whether a parked goroutine has not run since its stack was recorded, with the
// same modules.
//
//go:nosplit
//go:norace
//go:nocheckptr
func unmoved(s *shared, g, entry uintptr, since uint64) bool {
	if s.waits.Switched>>(mem.Load8(g+s.Off.GWaitReason)&63)&1 != 0 {
		return false
	}
	now, recorded := mark(s, g), mem.Load64(entry+entryMark*8)&^placeBits
	return now != 0 && (now^recorded)>>markModules == 0 &&
		(since != 0 && since == mem.Load64(entry+entrySince*8) || mem.Load64(entry+entryFrom*8) == 0 && now == recorded)
}

// placeOf returns the placeBits of a record.
//
//go:nosplit
//go:norace
//go:nocheckptr
func placeOf(rec uintptr) uint64 {
	h := uint64(1)
	for i := uintptr(0); i < uintptr(mem.Load64(rec+headCounts*8)&0xffff); i++ {
		h = (h + mem.Load64(rec+(headWords+i)*8)) * 0x9e3779b97f4a7c15
	}
	return h>>32&placeBits | 1<<16
}
