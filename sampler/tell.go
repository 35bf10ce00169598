package sampler

import (
	"slices"
	"sort"
	"time"

	"github.com/gotach/profiler/tachyon"
)

// What the recorder knows about goroutines goes to the sink in parts, as tachyon.Records says. A
// goroutine's first part waits until tellAfter has passed since its first sample. Most short
// goroutines have ended by then, and one part has all about them.
const (
	tellAfter     = 40 * time.Millisecond
	progressEvery = 40 * time.Millisecond
	maxTold       = 256 // goroutines in a call of Sink.WriteRecords
)

// telling is the part of a goroutine's state that says what the sink has of it.
type telling struct {
	queued   bool          // in recorder.queue
	since    time.Duration // when it was queued
	told     bool          // the sink has its first part, in this part of the session
	toldLast time.Duration // the Last that the sink has
}

// untold reports whether the sink lacks something of a goroutine.
func (k *goroutine) untold() bool {
	return k.sampled && (!k.told || k.last != k.toldLast || len(k.labels) > 0)
}

// news queues a goroutine that has a first part, or new labels, for the sink.
func (r *recorder) news(k *goroutine) {
	if k.sampled && !k.queued {
		k.queued, k.since = true, r.now
		r.queue = append(r.queue, k)
	}
}

// tell passes on the news that are old enough, or all of them.
func (r *recorder) tell(all bool) {
	for len(r.queue) > 0 {
		k := r.queue[0]
		if k.queued && !all && k.since > r.now-tellAfter {
			break
		}
		if k.queued {
			r.write1(k)
		}
		r.queue[0] = nil // append copies the others when their array is full
		r.queue = r.queue[1:]
	}
	r.writeRecords()
}

// Counted passes on the session's progress from time to time.
func (r *recorder) Counted() {
	for _, f := range r.followers.seen {
		f.own.Counted()
	}
	if r.now-r.progressed >= progressEvery {
		r.progressed = r.now
		r.progress()
	}
}

// counting passes on the progress in a long pass, whose ticks are not counted yet. Otherwise a program that
// is killed then would have samples after the end of its session.
func (r *recorder) counting() {
	switch {
	case r.midway == 0:
		r.midway = r.now // the pass began then
	case r.now-r.midway >= progressEvery:
		r.midway = r.now
		r.progress()
	}
}

func (r *recorder) progress() {
	if r.stats == nil || r.err() != nil {
		return
	}
	st := r.stats()
	st.Duration, st.Counts = r.now-r.part, st.Since(r.told)
	if err := r.sink.WriteRecords(&tachyon.Records{Progress: st.progress()}); err != nil {
		r.Fail(err)
	}
}

// write1 adds a goroutine's next part to the batch of records.
func (r *recorder) write1(k *goroutine) {
	r.records = append(r.records, r.next(k))
	if len(r.records) == maxTold {
		r.writeRecords()
	}
}

// writeRecords passes the waiting records to the sink.
func (r *recorder) writeRecords() {
	if len(r.records) > 0 && r.err() == nil {
		if err := r.sink.WriteRecords(&tachyon.Records{Goroutines: r.records}); err != nil {
			r.Fail(err)
		}
	}
	clear(r.records) // drops the labels
	r.records = r.records[:0]
}

// next returns a goroutine's next part.
func (r *recorder) next(k *goroutine) tachyon.Goroutine {
	g := tachyon.Goroutine{ID: k.ID, Last: micros(k.last - r.part), Labels: k.labels}
	if !k.told {
		g.Parent, g.CreatedBy, g.CreatedAt = k.Parent, k.CreatedBy, k.CreatedAt
		g.First, g.FirstWeight = micros(k.first-r.part), k.weight
	}
	k.labels, k.telling = nil, telling{told: true, toldLast: k.last}
	return g
}

// rest returns what the sink lacks of all goroutines of this part, by ascending id.
func (r *recorder) rest() []tachyon.Goroutine {
	list := slices.Clone(r.records)
	clear(r.records)
	r.records = r.records[:0]
	for _, k := range r.known {
		if k.untold() {
			list = append(list, r.next(k))
		}
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].ID < list[j].ID })
	return list
}
