//go:build linux && (amd64 || arm64)

package native

import "unsafe"

// Visiting goroutines that do not run: they are read where they lie, by the
// tick thread, while the program goes on. A goroutine may wake up at any moment
// of it, so a walk counts only if afterwards nothing says that it did:
//
//   - its status is the same, and never had the scan bit, under which its stack
//     may be moved;
//   - so are its goid, its stack and its stack pointer;
//   - so is trackingSeq, which the runtime raises each time a goroutine stops
//     running. It has 8 bits and may come round, hence a bound on how long the walk may
//     take;
//   - while it is raised, g.m is still set, so a parked goroutine has none;
//   - from Go 1.26 on, trackingSeq is not raised by a system call, but the
//     syscalltick of the P that the goroutine came with is at its end. Where that P is
//     not known (the runtime gave it away), the walk is done a second time and
//     has to find the same.

// alive reports whether a status is that of a goroutine that has not ended.
//
//go:nosplit
//go:norace
//go:nocheckptr
func alive(status uint32) bool {
	switch status &^ gScan {
	case gRunnable, gRunning, gSyscall, gWaiting, gPreempted, gLeaked:
		return true
	}
	return false
}

// visit records one goroutine that does not run. entry is its place in the
// roster, 0 where that is not known; then it is always walked. It returns 0 if there is
// no room. The entry remembers when it was looked at, unless that showed nothing.
//
//go:nosplit
//go:norace
//go:nocheckptr
func visit(base, g, entry, index uintptr) uintptr {
	s := at(base)
	status := load32(g + s.off.gStatus)
	m := uintptr(load64(g + s.off.gM))
	since := load64(g + s.off.gWaitSince)
	goid := load64(g + s.off.gID)
	looked := s.before
	if entry != 0 {
		looked = load64(entry + entryLooked*8)
	}
	switch status {
	case gWaiting, gLeaked:
		if m != 0 {
			return 1 // just parking, or at work on the system stack and interrupted
		}
		if entry != 0 && since != 0 && since == load64(entry+entrySince*8) && goid == load64(entry+entryGoid*8) {
			if !same(s, uint64(index)) {
				return 0
			}
			store64(entry+entryLooked*8, s.now)
			return 1
		}
	case gRunnable, gSyscall, gPreempted:
	case gRunning, gRunning | gScan:
		if entry != 0 {
			store64(entry+entryLooked*8, s.now)
		}
		return 1 // it is interrupted
	default:
		if status&gScan == 0 && entry != 0 {
			store64(entry+entryLooked*8, s.now)
			if load64(entry+entryGoid*8) != 0 {
				gone(s, entry, uint64(index))
			}
		}
		return 1
	}
	// With -race a walk of the whole depth, its labels included, fits too.
	if !room(s, maxRecord) {
		return 0
	}
	s.seenStatus, s.seenM, s.seenGoid, s.seenBefore = uint64(status), uint64(m), goid, looked
	if n := callWalk(base, g, index, 0); n != 0 {
		s.write += uint64(n)
		if entry != 0 {
			store64(entry+entryGoid*8, goid)
			store64(entry+entryLooked*8, s.now)
			if status != gWaiting && status != gLeaked {
				since = 0
			}
			store64(entry+entrySince*8, since)
		}
	}
	return 1
}

//go:nosplit
//go:norace
//go:nocheckptr
func same(s *shared, index uint64) bool {
	if !room(s, 2) {
		return false
	}
	w := s.ring + uintptr(s.write&(ringWords-1))*8
	store64(w, recSame|2<<8)
	store64(w+8, index)
	s.write += 2
	return true
}

//go:nosplit
//go:norace
//go:nocheckptr
func gone(s *shared, entry uintptr, index uint64) {
	if !room(s, 3) {
		return // at the next visit
	}
	w := s.ring + uintptr(s.write&(ringWords-1))*8
	store64(w, recGone|3<<8)
	store64(w+8, index)
	store64(w+16, load64(entry+entryGoid*8))
	s.write += 3
	store64(entry+entryGoid*8, 0)
	store64(entry+entrySince*8, 0)
}

// walkParked records a goroutine at the ring's write position and returns the record's
// words, 0 if the goroutine moved meanwhile.
//
//go:nosplit
//go:norace
//go:nocheckptr
func walkParked(base, g, index, _ uintptr) uintptr {
	s := at(base)
	status, m, goid := uint32(s.seenStatus), uintptr(s.seenM), s.seenGoid
	start := cycles()
	rec := s.ring + uintptr(s.write&(ringWords-1))*8
	fence()
	seq := load8(g + s.off.gTrackingSeq)
	fence()
	if load32(g+s.off.gStatus) != status || uintptr(load64(g+s.off.gM)) != m {
		s.torn++
		return 0
	}
	reason := uint64(0)
	if status == gWaiting || status == gLeaked {
		reason = uint64(load8(g + s.off.gWaitReason))
	}
	lo, hi := uintptr(load64(g+s.off.gStackLo)), uintptr(load64(g+s.off.gStackHi))
	sp, pc, bp := uintptr(load64(g+s.off.gSchedSP)), load64(g+s.off.gSchedPC), uintptr(load64(g+s.off.gSchedBP))
	p, tick := uintptr(0), uint32(0)
	if status == gSyscall {
		sp, pc, bp = uintptr(load64(g+s.off.gSyscallSP)), load64(g+s.off.gSyscallPC), uintptr(load64(g+s.off.gSyscallBP))
		if p = oldP(s, m); p != 0 {
			tick = load32(p + s.off.pSyscallTick)
		}
	}
	fence()
	if !oneStack(lo, hi) || uintptr(load64(g+s.off.gStackLo)) != lo || uintptr(load64(g+s.off.gStackHi)) != hi || sp < lo || sp >= hi || pc < 4096 {
		s.torn++
		return 0
	}
	store64(rec+headTime*8, s.now)
	store64(rec+headBefore*8, s.seenBefore)
	store64(rec+headCounts*8, 0)
	store64(rec, uint64(status)<<32|reason<<40|uint64(callDescribe(base, rec, g, index))<<48)
	pcs := rec + headWords*8
	store64(pcs, pc)
	beside(rec, sp, bp, sp-frameSlack, hi)
	if ctxLR != 0 && status != gSyscall {
		store64(rec+headSP0*8, load64(g+s.off.gSchedLR))
	}
	n, _ := walk(pcs, 1, bp, sp-frameSlack, hi)
	words := callFinish(base, rec, uintptr(n), uintptr(unsafe.Pointer(&s.scratch)))
	fence()
	now := sp
	if status == gSyscall {
		now = uintptr(load64(g + s.off.gSyscallSP))
		if oldP(s, m) != p || p != 0 && load32(p+s.off.pSyscallTick) != tick ||
			p == 0 && !again(pcs, n, bp, sp-frameSlack, hi) {
			s.torn++
			return 0
		}
	} else {
		now = uintptr(load64(g + s.off.gSchedSP))
	}
	if now != sp || uintptr(load64(g+s.off.gStackLo)) != lo || uintptr(load64(g+s.off.gStackHi)) != hi ||
		uintptr(load64(g+s.off.gM)) != m || load64(g+s.off.gID) != goid ||
		load32(g+s.off.gStatus) != status {
		s.torn++
		return 0
	}
	fence()
	if load8(g+s.off.gTrackingSeq) != seq || cycles()-start > s.tornAfter {
		s.torn++
		return 0
	}
	return words
}

// again walks a second time and compares.
//
//go:nosplit
//go:norace
//go:nocheckptr
func again(pcs uintptr, n uint64, bp, lo, hi uintptr) bool {
	for i := uint64(1); i < n; i++ {
		if bp < lo || bp > hi-16 || bp&7 != 0 || load64(bp+8) != load64(pcs+uintptr(i)*8) {
			return false
		}
		bp = uintptr(load64(bp))
	}
	return true
}

// oldP returns the P that the M had when it entered its system call, if it
// still is one of the roster's: only then may it be followed.
//
//go:nosplit
//go:norace
//go:nocheckptr
func oldP(s *shared, m uintptr) uintptr {
	if m == 0 {
		return 0
	}
	p := uintptr(load64(m + s.off.mOldP))
	for i := uint64(0); i < s.nprocs; i++ {
		if uintptr(load64(s.procs+uintptr(i)*8)) == p {
			return p
		}
	}
	return 0
}
