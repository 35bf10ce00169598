//go:build linux && (amd64 || arm64)

package native

import "github.com/gotach/profiler/internal/mem"

// The handler's part of what goroutines wait for. A goroutine that waits for a channel, a lock or a
// condition has the object in g.waiting, a list of runtime.sudog: one for each channel of a select,
// else one.
//
// The runtime uses a sudog again when the goroutine no longer waits. The collector may free it, but
// its memory stays mapped, like all of the Go heap. So a pointer to a sudog can be followed if it
// was read from g.waiting or, while the goroutine had not run, from the sudog before it. What the
// sudog says counts only if the goroutine has not run until the end of the visit.
//
// Of the object only the address is read.

// waitsFor writes the addresses of the objects for which a goroutine waits at to, and returns their
// number, at most maxObjects.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (r *rest) waitsFor(s *shared, g, to uintptr, reason uint64) uint64 {
	bit := uint64(1) << (reason & 63)
	if s.waits.Poll&bit != 0 {
		p := r.pollWord(s)
		return s.pollDesc(g, to, p, s.isPoll(p)) // not one in the other: the linker bounds the handler's stack
	}
	first := uintptr(mem.Load64(g + s.Off.GWaiting))
	switch {
	case first == 0:
		return 0
	case s.waits.Elem&bit != 0:
		mem.Store64(to, mem.Load64(first+s.Off.SudogElem))
		return 1
	case s.waits.Channel&bit != 0:
		mem.Store64(to, mem.Load64(first+s.Off.SudogC))
		return 1
	case s.waits.Choice&bit == 0:
		return 0
	}
	n := uint64(0)
	for sudog := first; sudog != 0 && n < maxObjects; n++ {
		mem.Store64(to+uintptr(n)*8, mem.Load64(sudog+s.Off.SudogC))
		sudog = uintptr(mem.Load64(sudog + s.Off.SudogWaitLink))
		mem.Fence()
		if uintptr(mem.Load64(g+s.Off.GWaiting)) != first || mem.Load8(g+s.Off.GTrackingSeq) != r.seq ||
			uint64(mem.Load32(g+s.Off.GStatus)) != s.seenStatus {
			return 0 // it has run, so the link may be anything
		}
	}
	return n
}
