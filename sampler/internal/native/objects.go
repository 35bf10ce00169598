//go:build linux && (amd64 || arm64)

package native

import "github.com/gotach/profiler/sampler/internal/mem"

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

// waitSets says which wait reasons have an object, and which are special, as bit sets of reasons.
type waitSets struct {
	elem    uint64 // sudog.elem is the address of a semaphore or of a list of waiting goroutines
	channel uint64 // sudog.c is the channel
	choice  uint64 // a select: each sudog has one channel

	switched uint64 // of coroutines: whether one has run since cannot be seen, see runtime.coroswitch_m
}

// waitsFor writes the addresses of the objects for which a goroutine waits at to, and returns their
// number, at most maxObjects.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (r *rest) waitsFor(s *shared, g, to uintptr, reason uint64) uint64 {
	first := uintptr(mem.Load64(g + s.off.gWaiting))
	bit := uint64(1) << (reason & 63)
	switch {
	case first == 0:
		return 0
	case s.waits.elem&bit != 0:
		mem.Store64(to, mem.Load64(first+s.off.sudogElem))
		return 1
	case s.waits.channel&bit != 0:
		mem.Store64(to, mem.Load64(first+s.off.sudogC))
		return 1
	case s.waits.choice&bit == 0:
		return 0
	}
	n := uint64(0)
	for sudog := first; sudog != 0 && n < maxObjects; n++ {
		mem.Store64(to+uintptr(n)*8, mem.Load64(sudog+s.off.sudogC))
		sudog = uintptr(mem.Load64(sudog + s.off.sudogWaitLink))
		mem.Fence()
		if uintptr(mem.Load64(g+s.off.gWaiting)) != first || mem.Load8(g+s.off.gTrackingSeq) != r.seq ||
			uint64(mem.Load32(g+s.off.gStatus)) != s.seenStatus {
			return 0 // it has run, so the link may be anything
		}
	}
	return n
}
