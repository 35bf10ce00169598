package main

import (
	"bytes"
	"math"
	"os"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// processCPU returns the CPU time that the process has used.
func processCPU() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// allCPU returns the CPU time that the process and its children have used, by getrusage.
func allCPU() (d time.Duration) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if unix.Getrusage(who, &u) == nil {
			d += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return d
}

var timerThread = regexp.MustCompile(`notify: signal/tid\.(\d+)`)

// timerThreads returns the ids of the threads that are signalled by POSIX timers of this
// process.
func timerThreads() (tids []int) {
	b, err := os.ReadFile("/proc/self/timers")
	if err != nil {
		return nil // the kernel may not have this file
	}
	for _, m := range timerThread.FindAllSubmatch(b, -1) {
		if tid, err := strconv.Atoi(string(m[1])); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids
}

// ownThreadCPU returns the CPU time that the calling thread has used.
func ownThreadCPU() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// threadCPU returns the CPU time that a thread of the process has used.
func threadCPU(tid int) time.Duration {
	var ts unix.Timespec
	// MAKE_THREAD_CPUCLOCK(tid, CPUCLOCK_SCHED), from the kernel's posix-timers_types.h.
	if unix.ClockGettime(int32(^tid<<3|6), &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// residentBytes returns the resident memory of the process in bytes, or NaN if it is unknown.
func residentBytes() float64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return math.NaN()
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return math.NaN()
	}
	pages, err := strconv.ParseFloat(string(fields[1]), 64)
	if err != nil {
		return math.NaN()
	}
	return pages * float64(os.Getpagesize())
}
