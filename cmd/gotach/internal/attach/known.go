//go:build linux && (amd64 || arm64)

package attach

import (
	"time"

	"github.com/gotach/profiler/internal/goruntime"
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
	numbers     int32 // of objects when its number was looked up
	status      tachyon.Status
	last        time.Duration // samples stand for its time until then
	sampled     bool          // it has a sample
	told        bool          // it has one in this file
	interpreter uint32
	runs        bool          // its last look found it running; stack and status are those of the look before
	since       time.Duration // it has been seen unchanged since
	seen        time.Duration // of its last look that found it unchanged, or that found none
	beat        time.Duration // when it has a sample although it rests
	index       int           // in the roster
	labels      uint64
	set         map[string]string // the same
	start       uint64
	parent      uint64
	gopc        uint64 // its go statement; 0: it has none
	debts       []debt
	ran         []uint32 // where it ran last
	call        []uint32 // where it was in a system call last
}

// begin begins with a goroutine at its first look.
func (r *recorder) begin(k *known, h *head) {
	last := r.before
	if k.seen > 0 { // there was none at a look before that tick: on average it began halfway
		last -= (last - k.seen) / 2
	}
	*k = known{motion: h.motion, interpreter: tachyon.User, live: true, index: k.index, since: r.now, last: last, start: h.start, parent: h.parent, debts: k.debts}
	if h.since != 0 && h.plain() == goruntime.GWaiting {
		k.since = min(r.now, time.Duration(h.since)-r.began) // at least
	}
	if h.id == 1 {
		k.status = tachyon.MainThread
	} else {
		k.gopc = h.gopc
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
	if by := r.creator(k.gopc); by.Func != "" {
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
		r.add(k, tachyon.HasGIL, k.since, r.running(k.start))
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
	labels := r.labels(g, h.labels)
	if labels == nil {
		labels = map[string]string{}
	}
	k.labels, k.set = h.labels, labels
	if k.told {
		r.told = append(r.told, tachyon.Goroutine{ID: h.id, Last: r.inFile(r.now), Labels: []tachyon.LabelSpan{{From: r.inFile(r.now), Labels: labels}}})
	}
}

// emit adds a sample of a goroutine, after those of what it is owed.
func (r *recorder) emit(k *known, status tachyon.Status) {
	if r.repay(k); k.last < r.now || !k.sampled {
		r.add(k, status, r.now, k.stack)
	}
}

// add adds a sample of a goroutine that stands for its time since the one before, or since the tick before the first.
func (r *recorder) add(k *known, status tachyon.Status, at time.Duration, stack []uint32) {
	r.tell(k, at)
	if k.object != nil {
		r.named.Use(k.object)
	}
	k.last, k.sampled = at, true
	r.sample(k.id, k.interpreter, status, at, stack)
}
