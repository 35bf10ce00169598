package sampler

import (
	"slices"
	"sort"
	"time"

	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// What the recorder knows of a goroutine goes to the sink in several records, as tachyon.Records
// says. The first one waits until tellAfter has passed since the goroutine's first sample. Most
// short goroutines have ended by then, and one record has all about them.
const (
	tellAfter     = 40 * time.Millisecond
	progressEvery = 40 * time.Millisecond
	maxTold       = 256 // goroutines in a call of Sink.WriteRecords
)

// telling is the part of a goroutine's state that says what the sink has of it.
type telling struct {
	queued   bool          // in recorder.queue
	since    time.Duration // when it was queued
	told     bool          // the sink has its first record in this part of the session
	toldLast time.Duration // the Last that the sink has
}

// untold reports whether the sink lacks something of a goroutine.
func (k *goroutine) untold() bool {
	return k.sampled && (!k.told || k.last != k.toldLast || len(k.labels) > 0)
}

// news queues a goroutine of which the sink is to get a first record, or new labels.
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
			r.addRecord(k)
		}
		r.queue[0] = nil // append copies the others when their array is full
		r.queue = r.queue[1:]
	}
	r.flushRecords()
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

// counting passes on the progress in a long pass, whose ticks are not counted yet. Otherwise a
// program that is killed then would have samples after the end of its session.
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
	r.writeRecords(&tachyon.Records{Progress: st.progress()})
}

// writeRecords passes records to the sink.
func (r *recorder) writeRecords(records *tachyon.Records) {
	if r.err() != nil {
		return
	}
	if err := r.sink.WriteRecords(records); err != nil {
		r.Fail(err)
	}
}

// addRecord adds a goroutine's next record to those that wait.
func (r *recorder) addRecord(k *goroutine) {
	r.records = append(r.records, r.next(k))
	if len(r.records) == maxTold {
		r.flushRecords()
	}
}

// flushRecords passes the waiting records to the sink.
func (r *recorder) flushRecords() {
	if len(r.records) > 0 {
		r.writeRecords(&tachyon.Records{Goroutines: r.records})
	}
	clear(r.records) // drops the labels
	r.records = r.records[:0]
}

// next returns a goroutine's next record.
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

// stopsEvery is the time after which the sink gets how often goroutines have stopped running.
const stopsEvery = time.Second

// stopCounts add up how often goroutines stopped running, since the sink got it last.
type stopCounts struct {
	list  []tachyon.GoroutineStops
	until time.Duration // the sink has what was up to then
}

// countStops adds how often a goroutine has stopped.
func (r *recorder) countStops(k *goroutine, s source.Stops) {
	list := r.stops.list
	if int(k.stopsAt) >= len(list) || list[k.stopsAt].ID != k.ID {
		k.stopsAt = uint32(len(list))
		list = append(list, tachyon.GoroutineStops{ID: k.ID})
		r.stops.list = list
	}
	x := &list[k.stopsAt]
	x.N += uint64(s.N)
	x.AtLeast = x.AtLeast || s.AtLeast
}

// takeStops returns what the sink lacks, up to now. It is valid until the next stops are counted.
// It is nil if there is nothing.
func (r *recorder) takeStops() *tachyon.Stops {
	list := r.stops.list
	r.stops.list, r.stops.until = list[:0], r.now
	if len(list) == 0 {
		return nil
	}
	sort.Slice(list, func(i, j int) bool { return list[i].ID < list[j].ID }) // slices.SortFunc takes 16 KB of the program for each type
	return &tachyon.Stops{Until: micros(r.now - r.part), List: list}
}

// tellStops passes on how often goroutines have stopped, if that was long ago, or in any case.
func (r *recorder) tellStops(all bool) {
	if r.err() != nil || !all && r.now-r.stops.until < stopsEvery {
		return
	}
	if s := r.takeStops(); s != nil {
		r.writeRecords(&tachyon.Records{Stops: s})
	}
}
