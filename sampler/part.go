package sampler

import (
	"slices"
	"time"

	"github.com/gotach/profiler/tachyon"
)

// lookLimit is how long a part goes on at most until the source has looked at every goroutine.
const lookLimit = 2 * time.Second

// fills asks the source to look at every goroutine if the sink is full: all are to have a sample
// until the end of this part of the session, also those that rest.
func (r *recorder) fills() {
	if r.looked == nil && r.err() == nil && r.sink.Full() {
		r.looked, r.full = r.look(), r.now
	}
}

// ends reports whether this part ends with the batch that begins.
func (r *recorder) ends() bool {
	if r.looked == nil {
		return false
	}
	select {
	case <-r.looked:
	default:
		if r.now-r.full < lookLimit {
			return false
		}
	}
	r.looked = nil
	return true
}

// seam returns the end of a part that ends now.
func (r *recorder) seam() time.Duration { return r.now.Truncate(time.Microsecond) }

// collect returns this part, which ends at end. now has the stats of the whole session.
func (r *recorder) collect(end time.Duration, now Stats) Part {
	now.Duration, now.Counts = end-r.part, now.Since(r.told)
	p := Part{Start: r.part, End: end, Stats: now, Goroutines: r.rest(), PCs: r.leafPCs()}
	if s := r.takeStops(); s != nil {
		p.Stops = &tachyon.Stops{Until: s.Until, List: slices.Clone(s.List)}
	}
	return p
}

// cut ends this part, returns it, and begins the next one. Of each goroutine's labels it keeps only
// the present ones.
func (r *recorder) cut() Part {
	now, end := r.stats(), r.seam()
	p := r.collect(end, now)
	r.told, r.part = now.Counts, end
	r.most.Store(r.live.Load())
	clear(r.pcs)
	r.objects.Forget()
	r.progressed = end
	clear(r.queue)
	r.queue = r.queue[:0]
	for _, k := range r.known {
		k.sampled, k.weight, k.leaf, k.labels, k.telling = false, 0, nil, nil, telling{}
		if len(k.set) > 0 { // a part begins without labels
			k.labels = []tachyon.LabelSpan{{Labels: k.set}}
		}
	}
	return p
}
