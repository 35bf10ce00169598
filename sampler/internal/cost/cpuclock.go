//go:build linux && (amd64 || arm64)

package cost

import "golang.org/x/sys/unix"

// ThreadCPU returns the CPU time that a thread of this process has used, in ns, 0 if the
// thread has ended.
func ThreadCPU(tid int) uint64 { return readClock(ThreadClock(uint64(tid))) }

// ProcessCPU returns the CPU time that the process has used, in ns, 0 if the kernel refuses to say.
func ProcessCPU() uint64 { return readClock(unix.CLOCK_PROCESS_CPUTIME_ID) }

// readClock returns the time of one of the kernel's clocks, in ns, 0 if the kernel refuses to say.
func readClock(clock int32) uint64 {
	var ts unix.Timespec
	if unix.ClockGettime(clock, &ts) != nil {
		return 0
	}
	return uint64(ts.Nano())
}

// ThreadClock returns the kernel's id of a thread's CPU clock (MAKE_THREAD_CPUCLOCK with
// CPUCLOCK_SCHED).
//
//go:nosplit
//go:norace
//go:nocheckptr
func ThreadClock(tid uint64) int32 { return int32(^tid<<3 | 6) }

// Constant calls nothing, unless this package has coverage counters that use sync/atomic.
//
//go:noinline
//go:nosplit
//go:norace
func Constant() uintptr { return 1 }
