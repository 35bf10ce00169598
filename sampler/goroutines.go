package sampler

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/prefetch"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// The bounds of a session's metadata. At these bounds goroutines take some 20 MB, and label spans
// as much again (the sources share equal label sets).
const (
	maxEnded      = 100_000 // goroutines that have ended
	maxSpans      = 200_000 // label spans, of all goroutines
	maxOwnerSpans = 10_000  // label spans of one goroutine
	maxLeaving    = 100_000 // goroutines that have ended and may still have a late sample
)

// goroutine is the recorder's state of one goroutine.
type goroutine struct {
	source.Goroutine
	next        *goroutine      // the goroutine whose sample came next at the last tick
	leaf        *tachyon.LeafPC // of its last sample, or nil
	ended       bool
	gone        time.Duration // when the source reported its end
	retired     bool          // counted in recorder.ended
	forgotten   bool          // by the sink, so it can have no more samples
	revived     bool          // seen again after its end, and not sampled or labelled since
	seen        bool          // has a sample
	sampled     bool          // has a sample in this part
	full        bool          // gets no more label spans
	interpreter uint32        // of its samples
	first, last time.Duration // times of this part's samples; without any, last is that of an earlier part
	weight      uint64        // of the part's first sample, µs; 0: one interval
	labels      []tachyon.LabelSpan
}

// find returns the goroutine with an id, or nil. Ticks see the same goroutines in about the same
// order. So find first tries the goroutine that came next at the last tick, before it looks into
// the map. It also prefetches the goroutine after that one: with many goroutines these are not in
// the processor's caches, and waiting for memory would be most of a sample's cost.
func (r *recorder) find(id uint64) *goroutine {
	latest := r.latest
	if latest != nil {
		if n := latest.next; n != nil && n.ID == id {
			prefetch.Value(n.next)
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
	k.ID, k.next, k.leaf = 0, nil, nil // no goroutine has id 0
	if r.latest == k {
		r.latest = nil
	}
}

// Goroutine adds a goroutine. If a known goroutine had ended, it counts as alive again.
func (r *recorder) Goroutine(g source.Goroutine) bool {
	if own.Created(g.CreatedBy) {
		return false
	}
	if k := r.known[g.ID]; k != nil {
		// The runtime's finalizer goroutine and those for callbacks from C end and
		// come back under one id.
		if k.ended && !k.forgotten {
			if k.retired {
				r.ended--
			}
			k.ended, k.retired, k.revived = false, false, true
			r.alive(k, +1)
		}
		return true
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
	k := r.known[id]
	if k == nil || k.ended {
		return
	}
	k.ended = true
	r.alive(k, -1)
	switch {
	case !k.seen:
		r.drop(k)
	case once(k.CreatedBy):
		k.gone = r.now
		r.leaving = append(r.leaving, id)
		r.sweep()
	default:
		r.retire(k)
	}
}

// sweep forgets goroutines some time after their end. It does not do that at once, because the
// native source can deliver a goroutine's last sample after its end: the thread that records the
// sample may have to wait for a core.
func (r *recorder) sweep() {
	for len(r.leaving) > 0 {
		k := r.known[r.leaving[0]]
		full := len(r.leaving) > maxLeaving
		if k != nil && k.ended && !full && r.now-k.gone < r.grace {
			return
		}
		r.leaving = r.leaving[1:]
		if k != nil && k.ended && !k.forgotten && (full || r.now-k.gone >= r.grace) {
			k.forgotten = true
			r.forget(k)
			r.retire(k)
		}
	}
}

// retire counts a goroutine as ended. If too many have ended it drops the goroutine.
func (r *recorder) retire(k *goroutine) {
	if r.ended >= maxEnded {
		r.drop(k)
		r.spans -= len(k.labels)
		r.omitted.Add(1)
		r.labelsOmitted.Add(int64(len(k.labels)))
		return
	}
	r.ended++
	k.retired = true
	k.labels = slices.Clip(k.labels)
}

// once reports whether a goroutine's id is used only once, by the function that created the
// goroutine. The runtime gives each go statement a new id. But its goroutines for finalizers and
// for callbacks from C end and begin again with the same id. They have no creator, or one in
// the runtime.
func once(createdBy string) bool {
	return createdBy != "" && !strings.HasPrefix(createdBy, "runtime.")
}

// forget tells the sink that a goroutine has ended for good.
func (r *recorder) forget(k *goroutine) {
	r.flush() // its samples come first
	if r.err() != nil {
		return
	}
	if err := r.sink.Forget(k.ID, k.interpreter); err != nil {
		r.Fail(err)
	}
}

// Labels begins a span of labels.
func (r *recorder) Labels(id uint64, t time.Duration, labels map[string]string) {
	k := r.known[id]
	if k == nil {
		return
	}
	k.revived = false
	if k.full {
		r.labelsOmitted.Add(1)
		return
	}
	if r.spans >= maxSpans || len(k.labels) >= maxOwnerSpans-1 {
		// From here on the goroutine has no labels: keeping its last ones would be worse.
		k.full = true
		r.labelsOmitted.Add(1)
		labels = nil
	}
	if n := len(k.labels); n == 0 && len(labels) == 0 || n > 0 && maps.Equal(k.labels[n-1].Labels, labels) {
		return
	}
	if labels == nil {
		labels = map[string]string{}
	}
	r.spans++
	k.labels = append(k.labels, tachyon.LabelSpan{From: micros(t - r.part), Labels: labels})
}

// goroutines returns the goroutines that were sampled in this part, by ascending id.
func (r *recorder) goroutines() []tachyon.Goroutine {
	list := make([]tachyon.Goroutine, 0, len(r.known))
	for _, k := range r.known {
		if !k.sampled {
			continue
		}
		list = append(list, tachyon.Goroutine{
			ID:          k.ID,
			Parent:      k.Parent,
			CreatedBy:   k.CreatedBy,
			CreatedAt:   k.CreatedAt,
			First:       micros(k.first - r.part),
			Last:        micros(k.last - r.part),
			FirstWeight: k.weight,
			Labels:      k.labels,
		})
	}
	slices.SortFunc(list, func(a, b tachyon.Goroutine) int { return cmp.Compare(a.ID, b.ID) })
	return list
}
