//go:build linux && (amd64 || arm64)

package native

import (
	"slices"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/rows"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// Samples of goroutines that run or are in a system call. There are two kinds of records of them:
//
//   - A visit to the thread says where CPU time was used (account.go). The goroutine is owed that
//     time, with its stack. A sample needs a place in the goroutine's time. What has none before
//     the visit takes the beginning of the goroutine's next intervals, whatever it did then. The
//     visits to a goroutine that runs for a tenth of the time are rare, but each stands for the
//     time between two ticks of the kernel, so on average that is right.
//   - A tick that finds the goroutine running only says that its wait has ended. The time since
//     then is left open until the next visit, or until a tick finds it waiting.
//
// A thread that does not answer the tick's signal at once has no core. If a goroutine has not
// stopped between two records of its thread, and the thread has used less time than has passed, it
// had none either. What both miss, package nocore finds.

// aheadMost bounds the CPU time that samples of a goroutine have in advance, so that a lack of
// little time needs no sample, as when the scheduler has preempted it.
const aheadMost = 100 * time.Microsecond

// owe adds CPU time that a goroutine has used.
func (d *drain) owe(g *goroutine, s *stack, status tachyon.Status, cpu time.Duration) {
	if status&tachyon.HasGIL != 0 {
		g.balance.Used(cpu)
	}
	advance := min(g.ahead, cpu)
	g.ahead -= advance
	if cpu -= advance; cpu > 0 && !g.add(debt{s, status | tachyon.OnCPU, cpu}) {
		d.unknown(debt{s, status, cpu})
	}
}

// repay makes samples of what a goroutine is owed, up to time t. Those of a goroutine without a
// sample begin at gap before t.
func (d *drain) repay(g *goroutine, t, gap time.Duration) {
	from := t - gap
	if g.seen {
		from = g.last
	}
	for len(g.debts) > 0 && t-from >= time.Microsecond { // a file has times in µs
		debt := &g.debts[0]
		on := min(debt.cpu, t-from)
		if on >= time.Microsecond {
			from += on
			d.sampled(g, debt.stack, debt.status, from, on)
		}
		g.owes -= on
		if debt.cpu -= on; debt.cpu < time.Microsecond {
			g.owes -= debt.cpu
			g.debts = slices.Delete(g.debts, 0, 1)
		}
	}
}

// active makes samples of a record of a goroutine that runs or is in a system call. s is its
// stack, t the record's time, and before the time of the tick before, or of the goroutine's visit
// before.
func (d *drain) active(g *goroutine, r record, s *stack, t, before time.Duration) {
	timer, inTurn := r.flags()&flagCPUTimer != 0, r.inTurn()
	thread := d.threads.hit(r[headTID])
	since := t - thread.visited
	cpu := time.Duration(d.threads.visit(thread, r[headClock], timer))
	status := statusOf(r.status(), g, s)
	if cpu > 0 {
		thread.last, thread.visited = s, t
		switch {
		case timer || r.status() == goruntime.GRunning || cpu > since/2:
			d.owe(g, s, status, cpu)
		case g.computing != nil: // the thread has no timer, and waits in the call for most of the time
			d.owe(g, g.computing, tachyon.HasGIL, cpu)
		default:
			d.unknown(debt{cpu: cpu})
		}
	}
	if r.status() == goruntime.GRunning {
		if g.computing = s; !timer {
			g.balance.Found(t - before)
		}
	}
	if g.seen && t <= g.last {
		return // a thread may answer a signal after the goroutine was visited
	}
	switch {
	case r.status() == goruntime.GSyscall && !timer && !g.quiet:
		d.endWait(g, before, inTurn)
		d.emit(g, s, status, t, t-before)
		g.runs = 0
		if g.ran = !inTurn; inTurn {
			g.parked, g.status = s, status
		}
		return
	case timer || cpu > 0:
		d.visited(g, r, s, status, t, before)
	case g.quiet:
	case !g.seen:
		d.repay(g, t, t-before) // what it has inherited
	default:
		d.endWait(g, before, inTurn)
		if sent := d.time(r[headSent]); r[headSent] != 0 && t-sent >= time.Microsecond {
			if sent-g.last >= time.Microsecond && g.parked != nil && g.parked.valid && !g.ran {
				d.emit(g, g.parked, g.status, sent, 0)
			}
			d.emit(g, s, status, t, 0) // it had no core
		}
	}
	g.ran, g.runs = true, r[headRuns]
}

// coreless makes a sample of a goroutine that is found waiting, for what its go statement's
// goroutines ran without a core and no sample says. It has the time since the goroutine's last
// sample that the CPU time it is owed leaves.
func (d *drain) coreless(g *goroutine, t time.Duration) {
	if on := min(g.balance.Due(), t-g.last-g.owes); g.seen && g.computing != nil && on >= time.Microsecond {
		d.sampled(g, g.computing, statusOf(goruntime.GRunning, g, g.computing), g.last+on, on)
	}
}

// endWait ends the wait of a goroutine that a tick has found active, without its being its turn,
// and not the one before. The time up to that tick belongs to the stack of its last visit in turn.
func (d *drain) endWait(g *goroutine, before time.Duration, inTurn bool) {
	if !inTurn && !g.ran && g.seen && g.parked != nil && g.parked.valid && before-g.last >= time.Microsecond {
		d.emit(g, g.parked, g.status, before, 0)
	}
}

// visited makes samples up to a visit to the goroutine's thread.
func (d *drain) visited(g *goroutine, r record, s *stack, status tachyon.Status, t, before time.Duration) {
	from := g.last
	if !g.seen {
		from = t - min(g.owes, t-before) // the ticks give it the rest of its time
	}
	on := min(g.owes, t-from)
	rest := t - from - on
	ran := g.ran && g.runs != 0
	known := g.parked != nil && g.parked.valid
	switch {
	case rest < time.Microsecond:
	case g.quiet:
		if on >= time.Microsecond {
			d.mark(g, s, t-on)
		}
	case ran && g.ahead+rest <= aheadMost && g.add(debt{s, status | tachyon.OnCPU, rest}):
		g.ahead += rest
	case known && !(ran && g.runs == r[headRuns]):
		d.sampled(g, g.parked, g.status, t-on, 0)
	default:
		d.sampled(g, s, status, t-on, rest)
	}
	d.repay(g, t, t-from)
}

// mark ends the wait of a runtime's goroutine, whose waits are not sampled, at time t.
func (d *drain) mark(g *goroutine, s *stack, t time.Duration) {
	if g.seen && t-g.last < time.Microsecond {
		return
	}
	if g.parked != nil && g.parked.valid {
		s = g.parked
	}
	d.sampled(g, s, 0, t, 0)
}

// scheduling handles a record of a thread that a tick has found in the scheduler.
func (d *drain) scheduling(w []uint64) {
	if t := d.threads.hit(w[1]); d.account != nil {
		d.account.rows.Add(rows.Scheduler, nil, time.Duration(d.threads.visit(t, w[2], false)))
	}
}

// thread handles a visit to a thread that runs no goroutine.
func (d *drain) thread(r record) {
	t := d.threads.hit(r[headTID])
	cpu := d.threads.visit(t, r[headClock], true)
	s := d.stacks.find(r)
	t.last = nil
	if d.account != nil {
		d.account.rows.Add(rows.Scheduler, s.ids, time.Duration(cpu))
	}
}

// emit passes a sample to Out, after those of what the goroutine is owed. It drops a sample that is
// not later than the goroutine's last one: a thread may answer a signal after the goroutine was
// visited. The goroutine's first sample stands for gap.
func (d *drain) emit(g *goroutine, s *stack, status tachyon.Status, t, gap time.Duration) {
	if g.owes >= time.Microsecond && (!g.seen || t > g.last) {
		d.repay(g, t, gap)
		if g.seen && t-g.last < time.Microsecond {
			return
		}
	}
	d.sampled(g, s, status, t, gap)
}

// sampled passes a sample to Out, as emit, but without what the goroutine is owed.
func (d *drain) sampled(g *goroutine, s *stack, status tachyon.Status, t, gap time.Duration) {
	if g.seen && t <= g.last || len(s.ids) == 0 {
		return
	}
	if status&(tachyon.HasGIL|tachyon.OnCPU) == tachyon.HasGIL {
		ran := gap
		if g.seen {
			ran = t - g.last
		}
		g.balance.Told(ran)
	}
	d.lacks.sampled(g, t, gap)
	g.seen, g.last = true, t
	d.sample = source.Sample{
		Goroutine: g.id,
		System:    g.system == systemGoroutine || g.system == callbackGoroutine && !s.user,
		Status:    status,
		Time:      t,
		Gap:       gap,
		Stops:     g.stops.untold,
		Stack:     s.ids,
		Object:    s.object,
	}
	if s.leaf != 0 {
		d.sample.Leaf = s.leaf - d.bias
	}
	g.stops.untold = source.Stops{}
	d.out.Sample(&d.sample)
}

// A goroutine that lives for less time than a visit stands for is still owed CPU time when it ends.
// A later goroutine that the same go statement starts is given it. So the CPU time of all
// goroutines of that statement is right. If there is none within a second, the time is that of an
// unknown goroutine.

// estateKept is for how long an estate waits for a goroutine.
const estateKept = time.Second

// leave moves what a goroutine is owed to the estate of its go statement.
func (d *drain) leave(g *goroutine) {
	if g.owes < time.Microsecond {
		return
	}
	e := d.estates[g.created]
	if e == nil {
		e = &estate{since: d.now}
		d.estates[g.created] = e
	}
	for _, debt := range g.debts {
		if len(e.debts) == maxDebts {
			d.unknown(debt)
			continue
		}
		e.debts = append(e.debts, debt)
	}
	g.debts, g.owes = nil, 0
}

// inherit gives a new goroutine the estate of its go statement.
func (d *drain) inherit(g *goroutine) {
	if e := d.estates[g.created]; e != nil {
		delete(d.estates, g.created)
		for _, debt := range e.debts {
			g.add(debt)
		}
	}
}

// unknown gives the row of unknown goroutines what is owed.
func (d *drain) unknown(debt debt) {
	if d.account == nil {
		return
	}
	var ids []uint32
	if debt.stack != nil {
		ids = debt.stack.ids
	}
	d.account.rows.Add(rows.Unknown, ids, debt.cpu)
}

// settleEstates gives the row of unknown goroutines what no goroutine has inherited, and at the end
// of the session all that goroutines are owed.
func (d *drain) settleEstates() {
	if d.end {
		for i := range d.gs {
			d.leave(&d.gs[i])
		}
		for _, g := range d.left {
			d.leave(&g)
		}
	}
	for created, e := range d.estates {
		if d.end || d.now-e.since > estateKept {
			delete(d.estates, created)
			for _, debt := range e.debts {
				d.unknown(debt)
			}
		}
	}
}
