//go:build linux && (amd64 || arm64)

package native

import (
	"time"

	"github.com/gotach/profiler/tachyon"
)

// Samples of goroutines that run or are in a system call. The ledger says how much of a sample's
// interval its thread was on the CPU. If that is only a part, the interval is divided: the first
// part has a sample without OnCPU.

// active makes samples of a record of a goroutine that runs or is in a system call. s is its
// stack, t the record's time, and before the time of the tick before, or of the goroutine's visit
// before.
func (d *drain) active(g *goroutine, r record, s *stack, t, before time.Duration) {
	if g.seen && t <= g.last {
		return // a thread may answer a signal after the goroutine was visited
	}
	inTurn := r[headIndex] != ^uint64(0)
	known := g.parked != nil && g.parked.valid
	// A goroutine that ran at the tick before has run since. But if it was in a system call, it
	// may have blocked there, and then no tick showed it.
	goesOn := g.ran && (!g.called || g.last >= before)
	from, fresh := before, !inTurn
	if g.seen && (inTurn || goesOn || g.last >= before || !known && !g.quiet) {
		from, fresh = g.last, false
	}
	// If it is fresh, the time before from belongs to the stack of its last visit in turn.
	interval := t - from
	on := time.Duration(d.ledger.pay(r[headTID], r[headClock], int64(interval), !inTurn, fresh))
	switch { // a file has times in µs
	case on < time.Microsecond:
		on = 0
	case interval-on < time.Microsecond:
		on = interval
	}
	status := statusOf(r, g, s)
	if g.quiet {
		if g.ran = on > 0; g.ran {
			d.mark(g, s, t-on)
			d.emit(g, s, status|tachyon.OnCPU, t, on)
		}
		return
	}
	if fresh && g.seen {
		if on > 0 && int64(interval) <= d.ledger.usual() {
			from = t - on // it began to run after the tick before
		}
		if from-g.last >= time.Microsecond {
			d.emit(g, g.parked, g.status, from, 0)
		}
	}
	switch {
	case on == 0:
		d.emit(g, s, status, t, interval)
	case from+on < t:
		d.emit(g, s, status, t-on, interval-on)
		fallthrough
	default:
		d.emit(g, s, status|tachyon.OnCPU, t, on)
	}
	g.called = r.status() == gSyscall
	if g.ran = !inTurn || !g.called; !g.ran {
		g.parked, g.status = s, status
	}
}

// mark ends the wait of a runtime's goroutine, whose waits are not sampled, at time t.
func (d *drain) mark(g *goroutine, s *stack, t time.Duration) {
	if g.seen && t-g.last < time.Microsecond {
		return
	}
	if g.parked != nil && g.parked.valid {
		s = g.parked
	}
	d.emit(g, s, 0, t, 0)
}
