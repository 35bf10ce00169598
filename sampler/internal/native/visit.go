//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/cost"
)

// Visits to goroutines that do not run. The tick thread reads their memory while the program runs.

// maxTries bounds how often a visit looks again for a goroutine in a system call, besides the 5 µs
// after which it gives up.
const maxTries = 1000

// visit records a goroutine that does not run. entry is its entry in the roster. If entry is 0,
// it is not known, and the stack is always walked. visit returns false if there is no room in the
// ring. It sets the entry's time of the look, unless the visit could not read the goroutine.
//
//go:nosplit
//go:norace
//go:nocheckptr
func visit(s *shared, g, entry uintptr, index uint64) bool {
	status := mem.Load32(g + s.Off.GStatus)
	m := uintptr(mem.Load64(g + s.Off.GM))
	since := mem.Load64(g + s.Off.GWaitSince)
	goid := mem.Load64(g + s.Off.GID)
	before := s.before
	if entry != 0 {
		if !meet(s, entry, index, goid, goruntime.Alive(status)) {
			return false
		}
		before = mem.Load64(entry + entryFrom*8)
		if before == 0 {
			before = mem.Load64(entry + entryLooked*8)
		}
	}
	switch status {
	case goruntime.GWaiting, goruntime.GLeaked:
		if m != 0 {
			return true // it is about to park, or it runs on the system stack and gets a signal
		}
		if entry != 0 && unmoved(s, g, entry, since) {
			if !same(s, index, s.now) {
				return false
			}
			mem.Store64(entry+entryLooked*8, s.now)
			return true
		}
	case goruntime.GRunnable, goruntime.GSyscall, goruntime.GPreempted:
	case goruntime.GRunning, goruntime.GRunning | goruntime.GScan, goruntime.GCopying:
		if entry != 0 {
			mem.Store64(entry+entryLooked*8, s.now)
		}
		return true // it runs and gets a signal
	default:
		return true
	}
	// Room for a record of maximum depth with labels.
	if entry != 0 && (nearlyFull(s) || !callUnmoved(s, entry, index)) || !room(s, maxRecord) {
		return false
	}
	s.seenStatus, s.seenM, s.seenGoid, s.seenBefore = uint64(status), uint64(m), goid, before
	modules := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.Modules)))
	n := callWalk(s, g, index)
	try := 0
	for start := mem.Cycles(); n == 0 && status == goruntime.GSyscall && try < maxTries && mem.Cycles()-start < s.tornAfter/8; try++ {
		// A short system call has ended. A goroutine that makes many is soon in the next one.
		m = uintptr(mem.Load64(g + s.Off.GM))
		if mem.Load64(g+s.Off.GID) != goid {
			break
		}
		if mem.Load32(g+s.Off.GStatus) == goruntime.GSyscall {
			s.seenM = uint64(m)
			n = callWalk(s, g, index)
		}
	}
	if n == 0 {
		s.torn++
		return true
	}
	rec := s.words(s.write)
	s.write += uint64(n)
	if entry != 0 {
		mark, was := uint64(0), mem.Load64(entry+entryMark*8)
		if mem.Load64(rec+headCounts*8)>>48&0xff == 1 && s.waits.Poll>>(mem.Load64(rec)>>40&63)&1 != 0 {
			since = 0 // with the mark 0: it is visited again, to see what it waits for
		} else if status == goruntime.GWaiting || status == goruntime.GLeaked {
			mark = markOf(modules, goid, mem.Load64(rec+headCounts*8)>>56, mem.Load64(rec)>>40&0xff) | placeOf(rec)
		} else {
			since = 0
		}
		switch {
		case mem.Load64(entry+entryFrom*8) != 0:
			s.events++
		case was == 0 || status == goruntime.GRunnable || status == goruntime.GPreempted: // one that a timer has woken is soon where it was
		case (was^mark)&placeBits != 0 || s.waits.Poll>>(mark&63)&1 != 0:
			s.events++
		}
		mem.Store64(entry+entryLooked*8, s.now)
		mem.Store64(entry+entryFrom*8, 0)
		mem.Store64(entry+entrySince*8, since)
		mem.Store64(entry+entryMark*8, mark)
	}
	return true
}

var callVisit = visit

// walkParked writes a record of a goroutine at the ring's write position. It returns the number
// of words, 0 if the goroutine ran during the walk.
//
//go:nosplit
//go:norace
//go:nocheckptr
func walkParked(s *shared, g uintptr, index uint64) uintptr {
	start := mem.Cycles()
	var r rest
	if !callBegin(s, g, index, uintptr(unsafe.Pointer(&r))) {
		return 0
	}
	rec := s.words(s.write)
	pcs, reason := rec+headWords*8, mem.Load64(rec)>>40&0xff
	n, _ := goruntime.Walk(&s.View, pcs, 1, r.bp, r.sp-frameSlack, r.hi)
	coroutine := s.waits.Switched>>reason&1 != 0
	if coroutine {
		switch n = uint64(callConfirm(s, g, uintptr(n), uintptr(unsafe.Pointer(&r)))); n {
		case uint64(tooLate):
			return 0
		case 0:
			mem.Store64(rec, mem.Load64(rec)|flagBare<<48)
		}
	}
	words := callFinish(s, rec, uintptr(n), uintptr(unsafe.Pointer(&s.scratch)))
	if objects := r.waitsFor(s, g, rec+words*8, reason); objects != 0 {
		mem.Store64(rec, mem.Load64(rec)+objects<<8)
		mem.Store64(rec+headCounts*8, mem.Load64(rec+headCounts*8)|objects<<48)
		words += uintptr(objects)
	}
	mem.Store64(rec+headCounts*8, mem.Load64(rec+headCounts*8)|uint64(r.seq)<<56)
	mem.Fence()
	if coroutine {
		if mem.Load64(g+s.Off.GID) != s.seenGoid {
			return 0
		}
		return words
	}
	if !r.holds(s, g, pcs, n) || mem.Cycles()-start > s.tornAfter {
		return 0
	}
	return words
}

var callWalk = walkParked

// beginRecord reads where a goroutine has stopped, and writes all of its record that comes before
// the walk. It returns false if the goroutine runs. It is a stage of walkParked. restAt is the
// address of the rest.
//
//go:nosplit
//go:norace
//go:nocheckptr
func beginRecord(s *shared, g uintptr, index uint64, restAt uintptr) bool {
	r := *(**rest)(unsafe.Pointer(&restAt))
	tid, clock := uint64(0), uint64(0)
	if s.seenStatus == goruntime.GSyscall && s.seenM != 0 {
		// The system call, or the C code, may use a core. This takes longer than the walk, so it
		// comes before: the walk counts only if the goroutine is in the same system call after it.
		tid = mem.Load64(uintptr(s.seenM) + s.Off.MProcID)
		clock = cpuClock(cost.ThreadClock(tid), uintptr(unsafe.Pointer(&s.timespec)))
	}
	if !r.read(s, g) {
		return false
	}
	rec := s.words(s.write)
	status, reason := s.seenStatus, uint64(0)
	if status == goruntime.GWaiting || status == goruntime.GLeaked {
		reason = uint64(r.reason)
	}
	beginHead(rec, s.now, s.seenBefore, tid, clock)
	mem.Store64(rec, status<<32|reason<<40|callDescribe(s, rec, g, index)<<48)
	mem.Store64(rec+headWords*8, r.pc)
	if reason != 0 {
		return true // it has parked itself, in a function with a frame
	}
	callNear(s, rec, r.sp, r.bp, r.hi)
	if ctxLR != 0 && status != goruntime.GSyscall {
		mem.Store64(rec+headSP0*8, s.OnlyCode(mem.Load64(g+s.Off.GSchedLR)))
	}
	return true
}

var callBegin = beginRecord

// visitTimed visits a goroutine, and adds the visit to the counters that the budget reads.
//
//go:nosplit
//go:norace
//go:nocheckptr
func visitTimed(s *shared, g, entry uintptr, index uint64) bool {
	start := mem.Cycles()
	ok := callVisit(s, g, entry, index)
	s.visiting += mem.Cycles() - start
	s.visits++
	return ok
}

// meet notes which goroutine an entry has. lives is false if it has none. meet returns false if
// there is no room in the ring.
//
//go:nosplit
//go:norace
//go:nocheckptr
func meet(s *shared, entry uintptr, index, goid uint64, lives bool) bool {
	if known := mem.Load64(entry + entryGoid*8); known != goid || !lives {
		if known != 0 && !callGone(s, entry, index) {
			return false
		}
		if lives {
			mem.Store64(entry+entryGoid*8, goid)
			if mem.Load64(entry+entryFrom*8) == 0 { // else the roster has set it for a new entry
				looked := mem.Load64(entry + entryLooked*8)
				mem.Store64(entry+entryFrom*8, looked+excess(s, looked))
			}
		}
	}
	if !lives {
		mem.Store64(entry+entryLooked*8, s.now)
		mem.Store64(entry+entryFrom*8, 0)
	}
	return true
}

// same records that until a time a goroutine had not run since its last stack was recorded. It
// reports whether there was room.
//
//go:nosplit
//go:norace
//go:nocheckptr
func same(s *shared, index, until uint64) bool {
	w := put(s, recSame, 3)
	if w == 0 {
		return false
	}
	mem.Store64(w+8, index)
	mem.Store64(w+16, until)
	return true
}

// gone records that the goroutine of an entry has ended. It reports whether there was room.
//
//go:nosplit
//go:norace
//go:nocheckptr
func gone(s *shared, entry uintptr, index uint64) bool {
	w, looked := put(s, recGone, 5), mem.Load64(entry+entryLooked*8)
	if w == 0 {
		return false
	}
	mem.Store64(w+8, index)
	mem.Store64(w+16, mem.Load64(entry+entryGoid*8))
	mem.Store64(w+24, looked+excess(s, looked))
	mem.Store64(w+32, mem.Load64(entry+entryFrom*8))
	mem.Store64(entry+entryGoid*8, 0)
	mem.Store64(entry+entrySince*8, 0)
	mem.Store64(entry+entryFrom*8, 0)
	return true
}

var callGone = gone

// recordUnmoved records until when looks have found a goroutine where it was at its latest visit,
// if it has moved since. It reports whether there was room.
//
//go:nosplit
//go:norace
//go:nocheckptr
func recordUnmoved(s *shared, entry uintptr, index uint64) bool {
	looked := mem.Load64(entry + entryLooked*8)
	if mem.Load64(entry+entryFrom*8) != 0 || mem.Load64(entry+entryMark*8) == 0 || mem.Load64(entry+entryMoved*8) == looked {
		return true // it has no visit, or the latest look found that it had moved
	}
	return same(s, index, looked)
}

var callUnmoved = recordUnmoved

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
