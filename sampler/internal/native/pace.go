//go:build linux && (amd64 || arm64)

package native

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/cost"
)

// When the next tick comes, and when the drain is woken for it. While the program is idle, ticks
// come later, and the drain sleeps for long, so that it costs nearly nothing. A server that nobody
// asks for anything is idle too, although its timers wake goroutines many times a second: these
// soon wait again where they waited before.

const (
	// idleAfter is the time for which the program must have done nothing until ticks come later. It
	// doubles with each tick that finds something, up to idleLatest. In a program that does
	// something more often than that, the time between two ticks does not depend on what it does.
	// Otherwise there would be more time before the tick that finds something than after it, and
	// short runs and waits would be shown too long.
	idleAfter, idleLatest = 100 * time.Millisecond, 1600 * time.Millisecond

	// From then on the mean time between two ticks is the time for which nothing was done, divided
	// by idlePart, up to idlestTicks. So a wait, and the pause before it, are wrong by a fraction
	// at most.
	idlePart    = 8
	idlestTicks = 200 * time.Millisecond

	// A process that uses more than one part in busyPart of a core is not idle.
	busyPart = 16

	// afterPass is the time for which the runtime may be busy after a pass of the drain, in ns.
	afterPass = 5e6
)

// next sets the time of the next tick, at random between a half and one and a half periods
// after this one. With a fixed period, a program that does something every millisecond would
// always be sampled at the same point of it. A few percent of randomness is not enough: with
// 6 % that point drifts so slowly that thousands of ticks give only a few dozen independent
// samples. With a whole period of randomness each tick is independent. Delays do not add up;
// ticks that are late by more than a period are lost.
//
// If the program has done nothing for long, ticks come later and later. At the first tick that
// finds that it has done something, or a goroutine that runs, the time is the usual one again.
//
//go:nosplit
//go:norace
//go:nocheckptr
func next(s *shared) {
	ran := hasRun(s)
	period := max(s.asked, mem.Load64(uintptr(unsafe.Pointer(&s.period))))
	hurry := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.hurry))) != 0
	if hurry {
		period = s.asked
	}
	s.forCost += period - s.asked
	switch {
	case ran || hurry:
		if s.idle != 0 {
			s.awake = uint64(idleAfter)
		} else if ran {
			s.awake = min(2*s.awake, uint64(idleLatest))
		}
		s.lastRan, s.idle = s.now, 0
	case s.found == 0 && s.now-s.lastRan >= max(s.awake, idlePart*period) && period < uint64(idlestTicks):
		s.idle = min((s.now-s.lastRan)/idlePart, uint64(idlestTicks))
		s.forIdle += s.idle - period
		period = s.idle
	}
	by := step(s, period)
	if s.deadline += by; s.deadline <= s.now {
		s.deadline = s.now + by
	}
	wakeDrain(s, ran)
}

//go:nosplit
//go:norace
//go:nocheckptr
func step(s *shared, period uint64) uint64 { return period/2 + s.chance()*period>>32 }

// chance returns a random number of 32 bits.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) chance() uint64 {
	x := s.random // xorshift64
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	s.random = x
	return x >> 32
}

// hasRun reports whether the program does something that more ticks would show: whether this tick
// has found a goroutine that is new, waits at another place than before, or waits for input as
// before but has had some, or the process has used the CPU. Other goroutines that wake up and wait
// again at the same place, as for a timer, do not count, and neither does a pass of the drain, with
// what the runtime does for it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func hasRun(s *shared) bool {
	passes := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.passes)))
	if passes&1 != 0 || passes != s.passesBefore || s.now >= mem.LoadAcquire(uintptr(unsafe.Pointer(&s.passDue))) {
		s.ownUntil = s.now + afterPass
	}
	s.passesBefore = passes
	s.running += s.found
	return s.events != 0 && s.before >= s.ownUntil || usesCPU(s)
}

// usesCPU reports whether the process has used more than a part of a core, without the tick thread
// and the passes of the drain, since the time was measured last. It is measured once in idleAfter
// at most.
//
//go:nosplit
//go:norace
//go:nocheckptr
func usesCPU(s *shared) bool {
	passed := s.now - s.measured
	if passed < uint64(idleAfter) {
		return false
	}
	own := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.passing))) + cpuClock(unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&s.cpuTime)))
	others := cpuClock(unix.CLOCK_PROCESS_CPUTIME_ID, uintptr(unsafe.Pointer(&s.cpuTime))) - own
	used := int64(others - s.others)
	s.measured, s.others = s.now, others
	computes := uint64(0)
	if used > int64(passed/busyPart) {
		computes = 1
	}
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.computes)), computes)
	return computes != 0
}

// idleSince reports whether the drain may wait for long: nothing has run since s.ran was so many, and
// the process does not compute. Goroutines that compute all the time have no events. If the drain
// waited for long beside them, the handler would ring each time, and listen would hold a P for 10
// to 20 ms at the begin of each such wait.
func idleSince(s *shared, ran uint64) bool {
	return mem.LoadAcquire(uintptr(unsafe.Pointer(&s.ran))) == ran && mem.LoadAcquire(uintptr(unsafe.Pointer(&s.computes))) == 0
}

// wakeDrain ends a long wait of the drain if something has run for cost.PassEvery, so that its
// samples get into the file as soon as those of a busy program, or if the ring is filling up.
//
//go:nosplit
//go:norace
//go:nocheckptr
func wakeDrain(s *shared, ran bool) {
	if begun := (mem.LoadAcquire(uintptr(unsafe.Pointer(&s.passes))) + 1) / 2; begun != s.ranPasses {
		s.ranPasses, s.ranSince = begun, false
	}
	if ran {
		s.ran++
		s.ranSince = true
	}
	if !s.ranSince {
		mem.StoreRelease(uintptr(unsafe.Pointer(&s.quietTo)), s.now)
	}
	if mem.LoadAcquire(uintptr(unsafe.Pointer(&s.asleep))) == 0 {
		return
	}
	if s.ranSince && s.now-s.quietTo >= uint64(cost.PassEvery) || s.write-mem.LoadAcquire(uintptr(unsafe.Pointer(&s.tail))) > ringWords/4 {
		mem.StoreRelease(uintptr(unsafe.Pointer(&s.asleep)), 0)
		mem.StoreRelease(uintptr(unsafe.Pointer(&s.passDue)), s.now)
		mem.StoreRelease(s.bell, 1)
		mem.Syscall(unix.SYS_FUTEX, s.bell, futexWake|futexPrivate, 1, 0, 0, 0)
	}
}
