//go:build linux && (amd64 || arm64)

package attach

import (
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/nocore"
	"github.com/gotach/profiler/internal/objects"
	"github.com/gotach/profiler/tachyon"
)

// known is what is known of a goroutine, or of a runtime.g that has none at present.
type known struct {
	motion
	live        bool
	stack       []uint32    // with the number of its object
	plain       *stack      // without it
	objects     []uint64    // addresses of what it waits for
	file        *descriptor // the same of [IO wait]
	object      *objects.Object
	status      tachyon.Status
	last        time.Duration // samples stand for its time until then
	sampled     bool          // it has a sample
	told        bool          // it has one in this file
	interpreter uint32
	runs        bool          // its last look found it running; stack and status are those of the look before
	since       time.Duration // it has been seen unchanged since
	seen        time.Duration // of its last look that found it unchanged, or that found none
	beat        time.Duration // when it has a sample although it rests
	index       int           // in gs
	labels      uint64
	set         map[string]string // the same
	start       uint64
	own         bool // it is one of the program's own session, which profiles leave out
	parent      uint64
	gopc        uint64 // its go statement
	debts       []debt
	owes        time.Duration // all of them
	balance     *nocore.Balance
	ran         []uint32 // where it ran last
	call        *stack   // where it was in a system call last
}

// begin begins with a goroutine at its first look.
func (r *recorder) begin(k *known, h *head) {
	last := r.before
	if k.seen > 0 { // there was none at a look before that tick: on average it began halfway
		last -= (last - k.seen) / 2
	}
	*k = known{motion: h.motion, interpreter: tachyon.User, live: true, index: k.index, since: r.now, last: last, start: h.start, parent: h.parent, gopc: h.gopc, debts: k.debts, owes: k.owes, balance: r.balances.Of(h.gopc)}
	if h.since != 0 && h.status == goruntime.GWaiting {
		k.since = min(r.now, time.Duration(h.since)-r.began) // at least
	}
	if h.id == 1 {
		k.status = tachyon.MainThread
	}
	r.alive++
	r.most = max(r.most, r.alive)
	r.MaxGoroutines = max(r.MaxGoroutines, r.most)
}

// tell tells of a goroutine before its first sample of a file, which is at a time.
func (r *recorder) tell(k *known, at time.Duration) {
	if k.told {
		return
	}
	k.told = true
	g := tachyon.Goroutine{ID: k.id, Parent: k.parent, First: r.inFile(at), Last: r.inFile(at), FirstWeight: micros(at) - micros(k.last)}
	if by := r.creator(k.gopc); k.id != 1 && by.Func != "" {
		g.CreatedBy, g.CreatedAt = by.Func, placeOf(by)
	}
	if len(k.set) > 0 {
		g.Labels = []tachyon.LabelSpan{{From: r.inFile(k.last), Labels: k.set}}
	}
	r.told = append(r.told, g)
}

// inFile returns a time in µs since the begin of the file.
func (r *recorder) inFile(at time.Duration) uint64 { return micros(at) - micros(r.part) }

// end is told that a goroutine has ended.
func (r *recorder) end(k *known) {
	r.woke(k)
	if k.runs || k.sampled {
		r.repay(k)
	}
	if k.runs && !k.sampled { // no other look has found it
		r.add(k, tachyon.HasGIL, k.since, r.running(k.start).ids)
	}
	r.forgive(k)
	if k.told {
		r.told = append(r.told, tachyon.Goroutine{ID: k.id, Last: r.inFile(k.last)})
	}
	r.gone = append(r.gone, k.id)
	*k = known{index: k.index, since: r.now}
	r.alive--
}

// relabel notes that a goroutine has other labels.
func (r *recorder) relabel(g uint64, k *known, h *head) {
	k.labels, k.set = h.labels, r.labels(g, h.labels)
	if k.told {
		r.told = append(r.told, tachyon.Goroutine{ID: h.id, Last: r.inFile(r.now), Labels: []tachyon.LabelSpan{{From: r.inFile(r.now), Labels: k.set}}})
	}
}

// add adds a sample of a goroutine that stands for its time since the one before, if that is
// earlier, or since the tick before the first.
func (r *recorder) add(k *known, status tachyon.Status, at time.Duration, stack []uint32) {
	if k.sampled && at <= k.last {
		return
	}
	r.tell(k, at)
	if k.object != nil {
		r.named.Use(k.object)
	}
	k.last, k.sampled = at, true
	r.sample(k.id, k.interpreter, status, at, stack)
}

// A goroutine that has rested for a time is looked at again after at most a part of that time, so
// the end of each wait is known to that part of it. The looks of goroutines that are neighbours in
// memory are at the same ticks: then one piece has many of them. Those of different blocks of
// neighbours are at different ticks.
const (
	restPart = 64
	maxRest  = 200 * time.Millisecond
	maxTicks = 4 // the longest rest is of so many ticks, if that is longer
	block    = 64
	phases   = 16
)

// fewDead is how many runtime.g without a goroutine are looked at at a tick, however long they had
// none: a goroutine counts from the middle between its first look and the one before, and as what
// it does at the former. Those of a server often begin by waiting for a core.
const fewDead = 128

// A goroutine that rests has no sample at most looks: the next one stands for all the time. It has
// one at these ages, each twice the one before, and then at this distance, for those who read the
// file meanwhile.
const (
	firstBeat = 64 * time.Millisecond
	lastBeat  = time.Second
)

// rested sets when goroutine i of gs, which did not change, is looked at next.
func (r *recorder) rested(i int) {
	k := r.list[i]
	k.seen = r.now
	age := r.now - k.since
	grid := max(maxRest, maxTicks*r.o.Interval)
	if !k.live {
		age = min(age, restPart*r.o.Interval*time.Duration(len(r.list)/fewDead))
	}
	for grid > age/restPart && grid > time.Millisecond {
		grid /= 2
	}
	phase := grid * time.Duration(i/block%phases) / phases
	r.dueAt[i] = (r.now+grid-phase)/grid*grid + phase
}

// unmoved reports whether what was read of a runtime.g is a goroutine that has not run since its
// last look.
func (r *recorder) unmoved(k *known, b []byte) bool {
	l := r.program.layout
	return k.live && !k.runs && k.stack != nil && k.motion.status != goruntime.GRunning && motionOf(b, l) == k.motion && le.Uint64(b[l.GLabels:]) == k.labels
}

// calls returns the calls of a goroutine as far as they are known before its stack is read. ok says
// that it need not be read: the goroutine runs, or it is runnable and has not run since its last
// look, or not at all. The calls of a system call are those of the one before, which count if it
// has ended by the time that its stack is read. So a goroutine counts as what it does at the look:
// some 20 µs later it would too often be what lasts longer, such as a wait.
func (r *recorder) calls(k *known, h *head) (pcs []uint64, ok bool) {
	m := motion{h.id, h.sp, h.pc, goruntime.GWaiting, k.motion.reason, h.seq}
	switch {
	case h.running():
		return nil, !r.Pauses && r.threads == nil
	case h.status == goruntime.GSyscall && k.call != nil:
		return k.call.pcs, false
	case h.status != goruntime.GRunnable:
	case h.pc == h.start:
		return []uint64{h.pc}, true
	case !k.runs && k.plain != nil && m == k.motion:
		return k.plain.pcs, true
	}
	return nil, false
}

// rests is told that goroutine i has not run since its last look.
func (r *recorder) rests(i int) {
	k := r.list[i]
	r.rested(i)
	if r.now < k.beat && !r.all {
		return
	}
	if len(k.objects) > 0 {
		r.renumber(k) // others may have waited for the same since
	}
	if k.file != nil && k.object == nil {
		r.wants(k.file)
		k.stack = r.numbered(k, r.objects.Named(k.file.kind, k.file.name)) // it may have a name since
	}
	if r.all { // else later, when it has run again: a sample of what it did before the rest would say that it does so after it
		r.repay(k)
	}
	r.add(k, k.status, r.now, k.stack)
	every := min(max(r.now-k.since, firstBeat), lastBeat)
	k.beat = r.now + every - every*time.Duration(i/block%phases)/(4*phases)
}

// woke adds a sample for the time until which a goroutine was seen to rest.
func (r *recorder) woke(k *known) {
	if k.live && k.seen > k.last && k.sampled {
		r.add(k, k.status, k.seen, k.stack)
	}
}
