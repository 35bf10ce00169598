//go:build linux && (amd64 || arm64)

package cost

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/own"
)

const (
	// StartLimit is how much CPU time Start may use before it gives up and another source takes
	// over. Start usually uses 5 to 20 ms. Time without a core does not count, because the source
	// that takes over would need more.
	StartLimit = 300 * time.Millisecond

	// onlyLimit replaces it where no other source takes over. Start never takes longer than this,
	// with a core or without.
	onlyLimit = 10 * time.Second
)

// Patience bounds how long Start takes. It belongs to a goroutine that has called own.Turn.
type Patience struct {
	used         func() time.Duration // the CPU time of the goroutine's thread
	begun, turn  time.Time            // the turn is the last time slice
	before, most time.Duration        // CPU time at the begin, and allowed since then
	only         bool                 // no other source takes over
}

// NewPatience returns the bound of a Start that begins now.
func NewPatience(used func() time.Duration, fallback bool) *Patience {
	now := time.Now()
	p := &Patience{used: used, begun: now, turn: now, before: used(), most: StartLimit, only: !fallback}
	if p.only {
		p.most = onlyLimit
	}
	return p
}

// CPUOfThread returns a clock of the CPU time of the calling thread.
func CPUOfThread() func() time.Duration {
	tid := unix.Gettid()
	return func() time.Duration { return time.Duration(ThreadCPU(tid)) }
}

// Over returns an error if Start has taken too long. The error says what Start was doing. Otherwise
// it makes a pause if the last one was a while ago.
func (p *Patience) Over(doing string) error {
	if !p.Lasts() || p.used()-p.before > p.most {
		return fmt.Errorf("it took too long: after %v Start was %s", time.Since(p.begun).Round(time.Millisecond), doing)
	}
	if time.Since(p.turn) > time.Millisecond {
		p.Pause()
	}
	return nil
}

// Allow gives what follows at least d.
func (p *Patience) Allow(d time.Duration) { p.most = max(p.most, p.used()-p.before+d) }

// Lasts reports whether Start still waits for a thread or goroutine of its own that has not had a
// core.
func (p *Patience) Lasts() bool { return time.Since(p.begun) < onlyLimit }

// Wait returns until when a check waits for what threads and goroutines with a core do: for a
// second, or as long as Start may take.
func (p *Patience) Wait() time.Time {
	end := time.Now().Add(time.Second)
	if last := p.begun.Add(onlyLimit); p.only && last.After(end) {
		return last
	}
	return end
}

// Pause gives the caller a new time slice, if it has used some of its last one. Each time, another
// goroutine may go first.
func (p *Patience) Pause() {
	if time.Since(p.turn) < 300*time.Microsecond {
		return
	}
	own.Again()
	p.turn = time.Now()
}

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
