//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/mem"
)

// The runtime knows how many goroutines there are: all gs that it has ever made, less those that it
// keeps for reuse, less its own. Every tick reads that number. Its integral over time is what the
// weights of all samples must add up to, so what they lack is known (drain.lack). The visits alone
// cannot say that: a goroutine can begin and end where no look comes in time. The drain's part is
// in goroutine.go. If Start has not found the counters (setup.go), sessions go on without the
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

// New entries of the runtime's list of gs. The runtime makes a g where it has no dead one left to
// reuse, so a server that keeps goroutines has new gs all the time. Their goroutines can be as
// short as others. So ticks read the list themselves and add what is new to the roster, and the
// drain only follows.

// addNew adds the gs that the runtime has made since the tick before to the roster. It takes no
// longer than visits may take; a later tick reads the rest.
//
//go:nosplit
//go:norace
//go:nocheckptr
func addNew(s *shared) {
	if s.adds == 0 || s.full != 0 {
		return
	}
	n, start := mem.LoadAcquire(s.allgs+8), mem.Cycles()
	for s.listed < n {
		if !readNew(s, n) || mem.Cycles()-start > mem.Load64(uintptr(unsafe.Pointer(&s.visitLimit))) {
			return
		}
	}
	s.listedAt = s.now
}

var callAdd = addNew

// readNew adds some entries of the runtime's list, which has n at least. It returns false if the
// next one must wait for another tick.
//
//go:nosplit
//go:norace
//go:nocheckptr
func readNew(s *shared, n uint64) bool {
	index := s.goroutines
	k := min(n-s.listed, newAtOnce, s.mapped-index, s.most-index)
	if k == 0 {
		if index >= s.most {
			mem.StoreRelease(uintptr(unsafe.Pointer(&s.full)), 1)
		}
		return false
	}
	good := readList(s, k)
	born := s.listedAt + excess(s, s.listedAt)
	for i := uint64(0); i < good; i++ {
		entry := s.entry(index + i)
		mem.Store64(entry+entryG*8, mem.Load64(uintptr(unsafe.Pointer(&s.newGs))+uintptr(i)*8))
		mem.Store64(entry+entryLooked*8, s.listedAt) // its goroutine began after that
		mem.Store64(entry+entryFrom*8, born)
	}
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.goroutines)), index+good)
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.listed)), s.listed+good)
	return good == k
}

// handOver makes ticks add new entries from now on. Goroutines of these have begun after the time
// now.
func (r *roster) handOver(now uint64) error {
	s := r.s
	s.adds, s.full = 0, 0
	if r.taken >= uint64(maxTracked) {
		return nil
	}
	s.listedAt, s.most = now, uint64(min(maxTracked, maxChunks*chunkSize))
	s.adds = 1
	return r.mapAhead()
}
