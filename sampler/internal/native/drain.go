//go:build linux && (amd64 || arm64)

package native

import (
	"maps"
	"slices"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/rows"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// pass takes all records out of the ring that are in it now.
func (d *drain) pass() {
	if d.account != nil {
		d.account.read(d.end)
	}
	// Refresh roster and tables after head was read: the ring can have records of goroutines and of
	// plugins' code that they do not have yet, and a record up to head is of code whose module the
	// runtime has in its list.
	head := mem.LoadAcquire(uintptr(unsafe.Pointer(&d.s.head)))
	if d.unread = d.roster.refresh(); len(d.gs) < int(d.roster.taken) {
		d.gs = append(d.gs, make([]goroutine, int(d.roster.taken)-len(d.gs))...)
	}
	if d.stacks.table.Grow() {
		d.stacks.table.Publish(&d.s.View)
	}
	d.objects.Turn(d.now, d.cycles.count())
	begin, tail := mem.Cycles(), d.s.tail
	for tail < head {
		at := d.s.words(tail)
		n := mem.Load64(at) >> 8 & 0xffffff
		if n == 0 || n > min(head-tail, ringWords-(tail+d.s.ringAt)&(ringWords-1)) {
			n = head - tail // this cannot be; what follows is lost
			d.torn++
		} else {
			d.record(unsafe.Slice(*(**uint64)(unsafe.Pointer(&at)), n))
		}
		tail += n
		mem.StoreRelease(uintptr(unsafe.Pointer(&d.s.tail)), tail)
	}
	d.reading += mem.Cycles() - begin
	if left := d.roster.leftAlive; left > 0 {
		d.notSeen += time.Duration(left) * max(0, d.now-d.passed) // they are never looked at
	}
	d.passed = d.now
	for id, g := range d.left {
		if d.now-g.last > time.Second { // no look has ever found it
			delete(d.left, id)
			d.gone(&g)
		}
	}
	d.settleEstates()
	if d.account != nil {
		d.account.settle(d.out, d.now, d.end)
	}
	d.labels.turn()
	d.stacks.forget(func(yield func(*stack)) {
		for i := range d.gs {
			if d.gs[i].parked != nil {
				yield(d.gs[i].parked)
			}
		}
	})
}

// record handles one record, by its kind.
func (d *drain) record(w []uint64) {
	switch w[0] & 0xff {
	case recTick:
		d.before, d.now = d.now, d.time(w[1])
		d.lacks.ticked(time.Duration(w[2])*time.Microsecond, d.now, d.before)
		if d.before > 0 {
			d.lacks.owned += time.Duration(d.lacks.own) * (d.now - d.before)
		}
	case recSame:
		d.work++
		if w[1] < uint64(len(d.gs)) && !d.gs[w[1]].ran {
			d.unmoved(&d.gs[w[1]], d.time(w[2]))
		}
	case recGone:
		d.ended(w)
	case recScheduler:
		d.scheduling(w)
	case recStack:
		d.work++
		d.stack(w)
	}
}

// unmoved makes a sample of a goroutine that until time t was where its last visit found it.
func (d *drain) unmoved(g *goroutine, t time.Duration) {
	if g.parked == nil || !g.parked.valid || g.skip || g.quiet {
		return
	}
	g.stops.at = max(g.stops.at, t)
	if len(g.waits) > 0 && g.numbers != d.objects.Numbers {
		g.numbers = d.objects.Numbers
		d.renumber(g) // others have waited for the same since
	}
	d.emit(g, g.parked, g.status, t, 0)
}

// ended handles a recGone record. Until the end that the record says, the goroutine counts as being
// where its last visit found it. If no visit has recorded it, its time is not seen.
func (d *drain) ended(w []uint64) {
	index, id, until, from := w[1], w[2], d.time(w[3]), w[4]
	if index >= uint64(len(d.gs)) {
		return
	}
	g := &d.gs[index]
	if g.id != id {
		// A later goroutine of this entry ran before the look.
		left, ok := d.left[id]
		if !ok {
			if from != 0 {
				d.notSeen += until - d.time(from)
			}
			return
		}
		delete(d.left, id)
		g = &left
	}
	switch {
	case g.skip || g.quiet || !g.seen:
	case g.parked != nil && g.parked.valid:
		d.unmoved(g, until)
	case until > g.last:
		d.notSeen += until - g.last
	}
	d.gone(g)
}

// gone forgets a goroutine that has ended.
func (d *drain) gone(g *goroutine) {
	d.leave(g)
	d.lacks.ended(g)
	if g.told {
		d.out.Gone(g.id)
	}
	*g = goroutine{}
}

// stack handles a recStack record.
func (d *drain) stack(r record) {
	if r.flags()&flagThread != 0 || r.flags()&flagCPUTimer != 0 && d.stacks.scheduling(r) {
		d.thread(r)
		return
	}
	g := d.goroutine(r)
	if g == nil {
		return
	}
	if g.skip {
		d.ownVisit(r)
		return
	}
	s := d.stacks.find(r)
	inTurn, running := r.inTurn(), r.status() == goruntime.GRunning
	if !s.valid && r[headTID] != 0 {
		s = d.stacks.bare(r)
	}
	if !s.valid {
		d.torn++
		if inTurn {
			g.parked = s
		}
		return
	}
	if g.system == callbackGoroutine && !s.user && !d.cfg.System {
		g.parked = nil
		return
	}
	if g.quiet && !running {
		if inTurn {
			g.parked = s
		}
		g.ran = false
		return
	}
	if !g.told && !d.tell(g, r) {
		return
	}
	t, before := d.time(r[headTime]), d.time(r[headBefore])
	if !g.system.ofRuntime() {
		g.stops.count(r, t)
	}
	if g.seen {
		d.relabel(g, r, t)
	} else {
		d.relabel(g, r, before) // the first sample stands for the time since before
	}
	if r[headTID] != 0 {
		d.active(g, r, s, t, before)
		return
	}
	if !inTurn && g.parked != nil && g.parked.valid {
		// Goroutines with a P are sampled at each tick, the others in turns. This one has no P,
		// and it is not its turn: it was visited because it ran at the tick before. The visit
		// says only that it no longer runs. If its stack counted, the wait that comes right
		// after running would stand for all waits of the goroutine.
		g.ran = false
		return
	}
	d.waiting(g, r, d.withObject(g, r, s), t, before)
}

// ownVisit gives the profiler's row the CPU time of a visit to a goroutine of its own, except those
// whose time account knows itself.
func (d *drain) ownVisit(r record) {
	if r[headTID] != 0 && r[headTID] != d.s.tid && r[headG] != d.s.drainG && d.account != nil {
		t := d.threads.hit(r[headTID])
		d.account.rows.Add(rows.Profiler, nil, time.Duration(d.threads.visit(t, r[headClock], r.flags()&flagCPUTimer != 0)))
	}
}

// waiting makes samples of a goroutine that a visit has found not to run. s is its stack, t the
// time of the visit, before that of the previous one.
func (d *drain) waiting(g *goroutine, r record, s *stack, t, before time.Duration) {
	status := statusOf(r.status(), g, s)
	var moved tachyon.Status
	if r.hasMoved(g, s, status) {
		moved = tachyon.Moved
	}
	d.coreless(g, t)
	d.emit(g, s, status|moved, t, t-before)
	g.ran, g.parked, g.status, g.seq = false, s, status, r.seq()
}

// hasMoved reports whether g has run since its previous sample, although it has the same status and
// stack as at that one. After a system call, that is not known. It is also false if g has stopped
// running a multiple of 256 times.
func (r record) hasMoved(g *goroutine, s *stack, status tachyon.Status) bool {
	return g.parked != nil && !g.ran && status == g.status && status&tachyon.Unknown == 0 && r.seq() != g.seq &&
		(s == g.parked || slices.Equal(s.ids, g.parked.ids))
}

// goroutine returns what the drain knows of a record's goroutine. It returns nil if the roster
// does not have the goroutine yet; it will have it at the goroutine's next record.
func (d *drain) goroutine(r record) *goroutine {
	i, ok := uint32(r[headIndex]), r.inTurn()
	if !ok {
		i, ok = d.roster.index[r[headG]]
	}
	if !ok && d.roster.left > 0 && d.roster.include(r[headG]) == nil {
		i, ok = d.roster.index[r[headG]], true
		d.gs = append(d.gs, make([]goroutine, int(d.roster.taken)-len(d.gs))...)
	}
	if !ok || int(i) >= len(d.gs) {
		return nil
	}
	g := &d.gs[i]
	if g.id != r[headGoid] {
		if g.told && g.parked != nil && !g.quiet {
			d.left[g.id] = *g // until the look that finds that it has ended
		} else {
			d.gone(g)
		}
		d.meet(g, r)
	}
	return g
}

// meet begins with a goroutine at its first record.
func (d *drain) meet(g *goroutine, r record) {
	*g = goroutine{id: r[headGoid], system: d.kind(r[headStartPC])}
	g.quiet = g.system == systemGoroutine && !d.cfg.System
	g.created = r[headGoPC]
	g.balance = d.nocores.Of(g.created)
	d.inherit(g)
}

// tell reports a goroutine to Out before its first sample. It returns false if Out does not want
// samples of it.
func (d *drain) tell(g *goroutine, r record) bool {
	told := source.Goroutine{ID: g.id, Parent: r[headParent], Quiet: g.quiet}
	if g.system != mainGoroutine {
		c := d.creation(r[headGoPC])
		told.CreatedBy, told.CreatedAt = c.by, c.at
	}
	g.told = d.out.Goroutine(told)
	if g.skip = !g.told; g.skip {
		d.lacks.own++
		d.lacks.owned += max(0, d.now-d.time(r[headBefore]))
	}
	return g.told
}

// relabel reports a goroutine's labels to Out if they have changed. They hold from t on.
func (d *drain) relabel(g *goroutine, r record, t time.Duration) {
	p := uintptr(r[headLabels])
	var labels map[string]string
	id := 0
	if p != 0 {
		if copied := r.labels(); len(copied) > 0 {
			id, labels = -1, decodeLabels(copied)
			d.labels.pin(uintptr(r[headG])+d.l.GLabels, p)
		} else if set, ok := d.labels.find(p); ok {
			id, labels = set.id, set.labels
		} else {
			return // the next record has a copy
		}
	}
	if id == g.labelID && id >= 0 {
		return
	}
	g.labelID = id
	if !maps.Equal(labels, g.labels) {
		g.labels = labels
		d.out.Labels(g.id, t, labels)
	}
}
