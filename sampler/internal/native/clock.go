//go:build linux && (amd64 || arm64)

package native

import (
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/mem"
)

// The handler computes the time from the processor's cycle counter if the kernel uses that
// counter too. A system call for the time would take a large part of a tick. The drain reads
// counter and clock together at each pass.

// steadyCounter reports whether the kernel itself keeps time by the cycle counter.
func steadyCounter() bool {
	b, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	name := strings.TrimSpace(string(b))
	return err == nil && (name == "tsc" || name == "kvm-clock" || name == "arch_sys_counter" || name == "hyperv_clocksource_tsc_page")
}

// instant is the clock in ns and a counter, as of cycles, at one moment. The counter may be wrong
// by up to off: the thread may have lost its core between the two readings.
type instant struct{ ns, cycles, off uint64 }

// readBoth takes three readings and returns the most exact one.
func readBoth(clock, counter func() uint64) (best instant) {
	best.off = ^uint64(0)
	for range 3 {
		before := counter()
		ns := clock()
		if took := counter() - before; took < best.off {
			best = instant{ns, before + took/2, took}
		}
	}
	return best
}

// readClock takes a new reading for the handler.
func readClock(s *shared) {
	next := s.clockAt + 1
	c := &s.clocks[next&1]
	if c.scale == 0 {
		return
	}
	r := readBoth(monotonicNow, mem.Cycles)
	if r.ns == 0 {
		return // the last reading stays in use
	}
	c.ns, c.cycles = r.ns, r.cycles
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.clockAt)), next)
}

// cyclesPerSecond measures a counter against a clock in ns, to one percent.
func cyclesPerSecond(clock, counter func() uint64) uint64 {
	var perSecond uint64
	for range 100 {
		a := readBoth(clock, counter)
		for range 1_000_000 { // bounded, in case the clock stands still
			if clock()-a.ns >= 2e6 {
				break
			}
		}
		b := readBoth(clock, counter)
		perSecond = uint64(float64(b.cycles-a.cycles) / float64(b.ns-a.ns) * 1e9)
		if a.off+b.off < (b.cycles-a.cycles)/100 {
			break
		}
	}
	return perSecond
}

// monotonicNow returns the time in ns, 0 if the kernel refuses clock_gettime.
func monotonicNow() uint64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0
	}
	return uint64(ts.Nano())
}

// timeNow returns the time on CLOCK_MONOTONIC in ns, the clock of Go's monotonic times. at is
// memory for a timespec. It returns 0 if the kernel refuses to say. The handler cannot use the
// vDSO, and a system call is slow. So it mostly computes the time from the cycle counter and the
// drain's last reading of both clocks.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) timeNow(at uintptr) uint64 {
	n := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.clockAt)))
	c := uintptr(unsafe.Pointer(&s.clocks)) + uintptr(n&1)*unsafe.Sizeof(clock{})
	ns, passed := mem.Load64(c), mem.Cycles()-mem.Load64(c+8)
	mem.Fence()
	// The place of a reading is written again only after the next reading, in the other place, has
	// become the current one.
	if mem.LoadAcquire(uintptr(unsafe.Pointer(&s.clockAt))) == n && passed < mem.Load64(c+24) {
		return ns + passed*mem.Load64(c+16)>>32
	}
	return cpuClock(unix.CLOCK_MONOTONIC, at)
}

// cpuClock returns the time of a CPU clock in ns, 0 if the kernel refuses it. at is memory for a
// timespec.
//
//go:nosplit
//go:norace
//go:nocheckptr
func cpuClock(clock int32, at uintptr) uint64 {
	if mem.Syscall(unix.SYS_CLOCK_GETTIME, uintptr(clock), at, 0, 0, 0, 0) != 0 {
		return 0
	}
	return mem.Load64(at)*1e9 + mem.Load64(at+8)
}
