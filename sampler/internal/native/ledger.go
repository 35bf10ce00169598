//go:build linux && (amd64 || arm64)

package native

import (
	"time"

	"golang.org/x/sys/unix"
)

// The ledger pays the CPU time that threads have used, by the kernel's clocks, to samples. So
// the samples with OnCPU add up to the CPU time of the process.
//
// Each record of a goroutine that runs, or is in a system call, has a reading of its thread's
// clock. Its sample stands for an interval, and the thread has used CPU time since its previous
// reading. If that covers the interval, the whole sample is on the CPU. If not, there are two
// reasons:
//
//   - The kernel did not run the thread for a part of the interval: other threads had the core,
//     or the cgroup had used up its quota. Then only a part of the interval is on the CPU.
//   - The tick came early in a short stretch of running. Another tick comes late in such a
//     stretch, and its thread has used more than the interval. Ticks come at random, so a whole
//     interval for each of them is right on average. The surplus of one goes into a pool, and
//     the lack of another is taken from it.
//
// The pool may go below zero by a small debt only. So when the kernel really gives the threads
// less time, samples get less. What stays in the pool has been used by no goroutine: by the
// scheduler, by signal handlers, by threads that never ran a goroutine when a tick came.
//
// All times are in ns.
type ledger struct {
	threads  map[uint64]*thread // by thread id
	pool     int64              // CPU time of threads that no sample has been given
	paid     int64              // CPU time that samples of goroutines have been given
	coming   int64              // what the pool got at the last look at all threads, as it will at the next
	interval int64              // moving average of the time between two ticks
}

// thread is what the ledger knows of a thread.
type thread struct {
	clock   uint64 // its CPU time as of its last sample
	passes  uint64 // CPU time since then that passes of the drain took, or a part of it
	carried int64  // CPU time before clock that the sample left, or the sample's debt
	ran     bool   // it has had a goroutine
	c       bool   // it is a thread of C
	hit     bool   // since the last look at all threads
	ended   bool   // at the last look it had ended
}

func newLedger(period uint64) *ledger {
	return &ledger{threads: make(map[uint64]*thread), interval: int64(period)}
}

// ticked notes the time between two ticks.
func (l *ledger) ticked(between time.Duration) {
	// One long stall must not count as usual.
	l.interval += (min(int64(between), 4*l.interval) - l.interval) / 16
}

// usual is the longest interval that a tick stands for when nothing is late. Up to that time a
// lack of CPU time can come from the random times of ticks.
func (l *ledger) usual() int64 { return 2 * l.interval }

// debt is how far the pool may go below zero: the random error of the first samples, and of all
// later ones.
func (l *ledger) debt() int64 { return min(2*l.interval+l.paid/100, 100e6) }

// thread returns the state of a thread. A thread that is new here began after the session, so all
// its CPU time counts.
func (l *ledger) thread(tid uint64) *thread {
	t := l.threads[tid]
	if t == nil {
		t = new(thread)
		l.threads[tid] = t
	}
	return t
}

// read takes a reading of the thread's clock, and returns the CPU time since the one before
// without that of the drain's passes.
func (t *thread) read(clock uint64) int64 {
	if clock < t.clock {
		return 0 // the thread has had two Ps since the last tick, and its records are not in order
	}
	since := clock - t.clock
	passes := min(t.passes, since)
	t.clock = clock
	t.passes -= passes // a record may be older than the pass that it is in
	return int64(since - passes)
}

// pay returns how much of a sample's interval its thread was on the CPU. random says that the
// sample was taken at a random moment of a stretch of running. first says that it is the first one
// there: then the interval begins where it must, otherwise only whole intervals are given, as far
// as that is possible.
func (l *ledger) pay(tid, clock uint64, interval int64, random, first bool) (on int64) {
	if interval <= 0 {
		return 0
	}
	if clock == 0 {
		return interval // the kernel refuses to say
	}
	t := l.thread(tid)
	t.ran, t.hit = true, true
	has := t.carried + t.read(clock)
	t.carried = 0
	lack := interval - has
	half := min(l.interval, interval) / 2
	switch {
	case lack <= 0:
		on = interval
		l.pool -= lack
	case random && lack <= l.usual() && l.pool-lack >= -l.debt()-l.coming:
		on = interval
		l.pool -= lack
	case first:
		if on = max(has, 0); has < 0 {
			t.carried = has
		}
	case lack <= half:
		on = interval
		t.carried = -lack
	case has <= half:
		t.carried = has
	default:
		on = has
	}
	l.paid += on
	return on
}

// processCPU returns the CPU time that the process has used, 0 if the kernel refuses to say.
func processCPU() uint64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return uint64(ts.Nano())
}
