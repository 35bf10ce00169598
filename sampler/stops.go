package sampler

import (
	"sort"
	"time"

	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

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
