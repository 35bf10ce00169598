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

// The handler's part of which file or connection a goroutine in [IO wait] waits for. The runtime
// has a pollDesc for each descriptor that it polls, and the goroutine's address is in the pollDesc
// while the goroutine waits. The goroutine has the address of the pollDesc on its stack, in the
// frame of the runtime's function that parks it. So the distance of that word from sched.sp is the
// same for all goroutines of a program. Start finds it (verify_objects.go).
//
// A word from a stack that may be running is not followed unless it is known to be safe. The
// runtime never unmaps a pollDesc (it comes from persistentalloc), so the handler reads only in
// pages in which the drain has found one, with process_vm_readv. The first visit to a pollDesc in
// another page records only the address, and the goroutine is visited again although it has not
// moved.
//
// What the pollDesc says counts only if it has the goroutine's address, and if the goroutine has
// not run until the end of the visit. Then the descriptor is the right one: it is not closed while
// somebody waits for it. It may be closed, and its number used again, before the drain asks the
// kernel what it is; PollFDSeq has changed then.

const (
	pollSlots = 1 << 14 // pages of pollDescs that can be known, some 8 pollDescs each
	pollReach = 768     // a pollDesc's address lies less than so far above sched.sp
	pollAlign = 64      // of a pollDesc; the fields that are read lie before the next multiple
	pollWords = 3       // that pollDesc records
)

// pollWord returns the word of a goroutine's stack that is the address of its pollDesc if it is in
// [IO wait], 0 if there is none.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (r *rest) pollWord(s *shared) uintptr {
	at := r.sp + uintptr(s.pollAt)
	if at > r.hi-8 {
		return 0
	}
	return uintptr(mem.Load64(at))
}

// pollDesc writes what a goroutine in [IO wait] waits for at to: p, which may be the address of its
// pollDesc, the file descriptor and the count of its uses. It returns the number of words: 0 if
// that is not known, 1 if the drain must look at the address first. proved says that p lies in a
// page of pollDescs.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) pollDesc(g, to, p uintptr, proved bool) uint64 {
	mem.Store64(to, uint64(p))
	switch {
	case p == 0:
		return 0
	case !proved:
		return 1 - s.pollFull
	}
	if uintptr(mem.Load64(p+s.Off.PollRG)) != g && uintptr(mem.Load64(p+s.Off.PollWG)) != g {
		return 0
	}
	mem.Store64(to+8, mem.Load64(p+s.Off.PollFD))
	mem.Store64(to+16, mem.Load64(p+s.Off.PollFDSeq))
	return pollWords
}

// isPoll reports whether an address lies in a page of pollDescs.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) isPoll(p uintptr) bool {
	page := uint64(p) >> 12
	return page != 0 && p%pollAlign == 0 && s.polls.has(page)
}

// addPoll notes that a page has pollDescs. The drain calls it.
func (s *shared) addPoll(p uint64) {
	if !s.polls.add(p >> 12) {
		s.pollFull = 1
	}
}
