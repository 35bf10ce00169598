//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// How long ago a goroutine changed that a look finds changed, if ticks are late.

// excess returns how long after the latest look at an entry its goroutine has changed: half of the
// time for which the look is longer ago than ticks that are on time explain. For the time for which
// the program did not run see stall.
//
//go:nosplit
//go:norace
//go:nocheckptr
func excess(s *shared, looked uint64) uint64 {
	after := s.shift
	if usual := looked + s.stalled + s.period*3/2; s.now > usual {
		after += (s.now - usual) / 2
	}
	return after
}

// A tick that is late by so many periods may follow a stall of the program, and so many ticks after
// it read the CPU time of the process.
const stallPeriods, watchTicks = 3, 1000

// stall notes for how long the program did not run at all before a late tick: its cgroup had used
// up its CPU quota, or other programs had the cores. No goroutine begins or ends in that time. Many
// begin and end right after it, before the tick thread gets a core. So the time since the last tick
// is not taken at half: shift is the part of the stall before a change, by the share of the
// program's running time that came after the stall.
//
// The stall is the tick's delay without the CPU time of the process. That is read only for some
// time after a tick that was very late.
//
//go:nosplit
//go:norace
//go:nocheckptr
func stall(s *shared) {
	s.stalled, s.shift = 0, 0
	if s.late > stallPeriods*s.period {
		s.watch = watchTicks
	}
	if s.watch == 0 {
		s.used = 0
		return
	}
	s.watch--
	before := s.used
	s.used = cpuClock(unix.CLOCK_PROCESS_CPUTIME_ID, uintptr(unsafe.Pointer(&s.cpuTime)))
	between := s.now - s.before
	if before == 0 || s.used == 0 || s.late <= stallPeriods*s.period || s.late >= between {
		return
	}
	ran := min(s.late, s.used-before)
	s.stalled = s.late - ran
	s.shift = (s.stalled >> 10) * ran / ((between-s.stalled)>>10 + 1) // >>10 against overflow
}
