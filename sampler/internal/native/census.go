//go:build linux && (amd64 || arm64)

package native

import (
	"github.com/gotach/profiler/internal/mem"
)

// The runtime knows how many goroutines there are: all gs that it has ever made, less those that it
// keeps for reuse, less its own. Every tick reads that number. Its integral over time is what the
// weights of all samples must add up to, so what they lack is known (drain.lack). The visits alone
// cannot say that: a goroutine can begin and end where no look comes in time. The drain's part is
// in lacks.go. If Start has not found the counters (findsched.go), sessions go on without the
// number.

// count returns the number of the program's goroutines, as runtime.NumGoroutine does.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) count() uint64 {
	n := int64(mem.Load64(s.allgs + 8))
	for _, field := range [...]uintptr{s.Off.SchedFree, s.Off.SchedFreeBare, s.Off.SchedSystem} {
		n -= int64(int32(mem.Load32(s.sched + field)))
	}
	for i := uint64(0); i < s.nprocs; i++ {
		n -= int64(int32(mem.Load32(uintptr(mem.Load64(s.procs+uintptr(i)*8)) + s.Off.PFree)))
	}
	return uint64(max(n, 0))
}

// census records a tick, and how many goroutines there were up to then.
//
//go:nosplit
//go:norace
//go:nocheckptr
func census(s *shared) {
	stall(s)
	if s.sched != 0 {
		s.countUp()
	}
	if w := put(s, recTick, 3); w != 0 {
		mem.Store64(w+8, s.now)
		mem.Store64(w+16, s.area)
	}
}

var callCensus = census

// countUp adds the time since the last tick to the integral. For the time for which the program did
// not run see stall: until it ran again there were as many goroutines as at the tick before.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) countUp() {
	before, between := s.living, s.now-s.before
	s.living = s.count()
	s.area += (before*s.shift + s.living*(s.stalled-s.shift) + (before+s.living)*(between-s.stalled)/2) / 1000
}
