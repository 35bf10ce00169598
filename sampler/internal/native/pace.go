//go:build linux && (amd64 || arm64)

package native

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/cost"
)

// When the next tick comes, and when the drain is woken for it. While nothing runs, ticks come
// later, and the drain sleeps for long: an idle program costs nearly nothing.

const (
	// idleAfter is the time for which nothing must have run until ticks come later. In a program that
	// does something more often than that, the time between two ticks does not depend on what it
	// does. Otherwise there would be more time before the tick that finds something running than
	// after it, and short runs and waits would be shown too long.
	idleAfter = 100 * time.Millisecond

	// From then on the mean time between two ticks is the time for which nothing has run, divided by
	// idlePart, up to idlestTicks. So a wait, and the pause before it, are wrong by a fraction at most.
	idlePart    = 8
	idlestTicks = 200 * time.Millisecond

	// A process that has used less CPU time between two ticks has not run, in ns. To wake a thread
	// alone takes more.
	asGoodAsIdle = 3000

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
// If nothing has run for idleAfter, ticks come later and later. At the first tick that finds that
// something has run, the time is the usual one again.
//
//go:nosplit
//go:norace
//go:nocheckptr
func next(s *shared) {
	ran := hasRun(s)
	period := max(s.asked, mem.Load64(uintptr(unsafe.Pointer(&s.period))))
	if mem.LoadAcquire(uintptr(unsafe.Pointer(&s.hurry))) != 0 {
		period, s.lastRan = s.asked, s.now
	}
	s.forCost += period - s.asked
	switch {
	case ran || s.lastRan == s.now:
		s.lastRan, s.idle = s.now, 0
	case s.now-s.lastRan >= max(uint64(idleAfter), idlePart*period) && period < uint64(idlestTicks):
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

// hasRun reports whether the program runs at this tick, or has run since the tick before. If no P has
// a goroutine now, and no goroutine is known to have moved, it compares the CPU time of the process with that of this thread. Threads that have
// nothing to do use none at all. A pass of the drain, and what the runtime does for it, does not count.
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
	before := s.others
	s.others = 0
	if s.found != 0 || s.stirred != 0 && s.before >= s.ownUntil {
		return true
	}
	if mem.Syscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_PROCESS_CPUTIME_ID, uintptr(unsafe.Pointer(&s.cpuTime)), 0, 0, 0, 0) == 0 {
		s.others = s.cpuTime[0]*1e9 + s.cpuTime[1]
	}
	if mem.Syscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&s.cpuTime)), 0, 0, 0, 0) == 0 {
		s.others -= s.cpuTime[0]*1e9 + s.cpuTime[1]
	}
	// The thread's clock is read later. If it lost its core between the two, the difference is too small.
	s.others = max(s.others, before)
	return s.before >= s.ownUntil && (before == 0 || s.others > before+asGoodAsIdle)
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
