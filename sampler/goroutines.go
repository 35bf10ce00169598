package sampler

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

const (
	// While more than manyLeaving goroutines have ended and may still have a late sample, each is
	// kept for an eighth of the usual time only. So a program of many short goroutines takes little
	// memory.
	manyLeaving = 1000
	maxLeaving  = 100_000 // most goroutines that are kept after their end

	maxForgotten = 50_000 // ids of ended goroutines that are known as such
)

// goroutine is the recorder's state of one goroutine.
type goroutine struct {
	source.Goroutine
	next        *goroutine      // the goroutine whose sample came next at the last tick
	leaf        *tachyon.LeafPC // of its last sample, or nil
	ended       bool
	gone        time.Duration       // when the source reported its end
	revived     bool                // seen again after its end, and not sampled or labelled since
	seen        bool                // has a sample
	sampled     bool                // has a sample in this part
	interpreter uint32              // of its samples
	first, last time.Duration       // times of this part's samples; without any, last is that of an earlier part
	weight      uint64              // of the part's first sample, µs; 0: one interval
	set         map[string]string   // its present labels
	labels      []tachyon.LabelSpan // that the sink does not have yet
	stopsAt     uint32              // index in recorder.stops.list, if that entry is its
	telling
}

// find returns the goroutine with an id, or nil. Ticks see the same goroutines in about the same
// order. So find first tries the goroutine that came next at the last tick, before it looks into
// the map.
func (r *recorder) find(id uint64) *goroutine {
	latest := r.latest
	if latest != nil {
		if n := latest.next; n != nil && n.ID == id {
			r.latest = n
			return n
		}
	}
	k := r.known[id]
	if k != nil {
		if latest != nil {
			latest.next = k
		}
		r.latest = k
	}
	return k
}

// drop removes a goroutine. It clears the pointer to the next one: otherwise a chain of dropped
// goroutines could stay in memory.
func (r *recorder) drop(k *goroutine) {
	delete(r.known, k.ID)
	k.ID, k.next, k.leaf, k.ended = 0, nil, nil, false // no goroutine has id 0
	if r.latest == k {
		r.latest = nil
	}
}

// Goroutine adds a goroutine. If a known goroutine had ended, it counts as alive again.
func (r *recorder) Goroutine(g source.Goroutine) bool {
	if own.Created(g.CreatedBy) {
		return false
	}
	for _, f := range r.followers.seen {
		if f.own.known[g.ID] != nil {
			f.own.Goroutine(g)
		}
	}
	if k := r.known[g.ID]; k != nil {
		// The runtime's finalizer goroutine and those for callbacks from C end and
		// come back under one id.
		if k.ended {
			k.ended, k.revived = false, true
			r.alive(k, +1)
		}
		return true
	}
	if r.forgotten.has(g.ID) {
		return true // Sample leaves it out
	}
	k := &goroutine{Goroutine: g}
	r.known[g.ID] = k
	r.alive(k, +1)
	return true
}

func (r *recorder) alive(k *goroutine, d int64) {
	if k.Quiet {
		return
	}
	if n := r.live.Add(d); n > r.most.Load() {
		r.most.Store(n)
	}
}

// Gone marks a goroutine as ended.
func (r *recorder) Gone(id uint64) {
	for _, f := range r.followers.seen {
		f.own.Gone(id)
	}
	k := r.known[id]
	if k == nil || k.ended {
		return
	}
	k.ended = true
	r.alive(k, -1)
	if k.told && k.untold() {
		r.addRecord(k) // until then readers of an unfinished file take it to be alive
	}
	switch {
	case !k.seen:
		r.drop(k)
	case once(k.CreatedBy):
		k.gone = r.now
		r.leaving = append(r.leaving, k)
		r.sweep()
	}
}

// sweep forgets goroutines some time after their end. It does not do that at once, because the
// native source can deliver a goroutine's last sample after its end: the thread that records the
// sample may have to wait for a core.
func (r *recorder) sweep() {
	for len(r.leaving) > 0 {
		k, grace := r.leaving[0], r.grace
		switch n := len(r.leaving); {
		case n > maxLeaving:
			grace = 0
		case n > manyLeaving:
			grace /= 8
		}
		if k.ended && r.now-k.gone < grace {
			return
		}
		r.leaving[0] = nil // append copies the others when their array is full
		r.leaving = r.leaving[1:]
		if k.ended { // not if it has been seen again, or is here twice
			r.forget(k)
		}
	}
}

// once reports whether a goroutine's id is used only once, by the function that created the
// goroutine. The runtime gives each go statement a new id. But its goroutines for finalizers and
// for callbacks from C end and begin again with the same id. They have no creator, or one in
// the runtime.
func once(createdBy string) bool {
	return createdBy != "" && !strings.HasPrefix(createdBy, "runtime.")
}

// forget drops a goroutine that has ended for good. The sink gets what it does not have of it.
func (r *recorder) forget(k *goroutine) {
	if slices.ContainsFunc(r.batch, func(s tachyon.Sample) bool { return s.Thread == k.ID }) {
		r.flush() // its samples come first
	}
	if k.untold() {
		r.addRecord(k)
	}
	if r.err() == nil {
		if err := r.sink.Forget(k.ID, k.interpreter); err != nil {
			r.Fail(err)
		}
	}
	r.forgotten.add(k.ID)
	r.drop(k)
}

// Labels begins a span of labels.
func (r *recorder) Labels(id uint64, t time.Duration, labels map[string]string) {
	for _, f := range r.followers.seen {
		f.own.Labels(id, t, labels)
	}
	k := r.known[id]
	if k == nil {
		return
	}
	k.revived = false
	if maps.Equal(k.set, labels) {
		return
	}
	if labels == nil {
		labels = map[string]string{}
	}
	k.set = labels
	k.labels = append(k.labels, tachyon.LabelSpan{From: micros(t - r.part), Labels: labels})
	r.news(k)
}

// A forgotten has the ids of the last goroutines that were forgotten, maxForgotten at most and half
// of that at least. That is 24 to 36 bytes for each. The zero value is empty.
type forgotten struct {
	late, early map[uint64]struct{} // late has the ids that were added last
}

func (f *forgotten) has(id uint64) bool {
	_, late := f.late[id]
	_, early := f.early[id]
	return late || early
}

func (f *forgotten) add(id uint64) {
	if f.late == nil || len(f.late) == maxForgotten/2 {
		f.early, f.late = f.late, make(map[uint64]struct{})
	}
	f.late[id] = struct{}{}
}
