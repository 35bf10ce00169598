//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The handler tells the time by the processor's cycle counter, where the kernel does,
// too, since to ask the kernel would be a large part of a tick. The drain reads the two
// side by side now and then.

// steadyCounter reports whether the kernel itself keeps time by the cycle counter.
func steadyCounter() bool {
	b, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	name := strings.TrimSpace(string(b))
	return err == nil && (name == "tsc" || name == "kvm-clock" || name == "arch_sys_counter" || name == "hyperv_clocksource_tsc_page")
}

// instant is what the clock and the counter said at one moment. The counter may be off by
// up to so much: the thread may have been without a core between the two.
type instant struct{ ns, cycles, off uint64 }

// readBoth returns of some readings the least disturbed.
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
	next := 1 - s.clockAt&1
	c := &s.clocks[next]
	if c.scale == 0 {
		return
	}
	r := readBoth(monotonicNow, cycles)
	if r.ns == 0 {
		return // the last reading goes on to serve
	}
	c.ns, c.cycles = r.ns, r.cycles
	storeRelease(uintptr(unsafe.Pointer(&s.clockAt)), next)
}

// cyclesPerSecond measures a counter against a clock in ns, to one percent.
func cyclesPerSecond(clock, counter func() uint64) uint64 {
	var perSecond uint64
	for range 100 {
		a := readBoth(clock, counter)
		for range 1_000_000 { // a clock that stands still is no reason to stay
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

// checkClock returns an error where the kernel does not tell the time. The runtime asks
// the vDSO, so a policy that refuses the system call need not have been noticed.
func checkClock() error {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return fmt.Errorf("clock_gettime: %w", err)
	}
	return nil
}

// monotonicNow returns the time in ns, 0 if the kernel does not tell it any more.
func monotonicNow() uint64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0
	}
	return uint64(ts.Nano())
}
