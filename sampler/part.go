package sampler

import (
	"slices"
	"time"

	"github.com/gotach/profiler/tachyon"
)

// lookLimit is how long a part goes on at most until the source has looked at every goroutine.
const lookLimit = 2 * time.Second

// ends reports whether this part of the session ends with the batch that begins. Until its end all goroutines are to have a sample, also
// those that rest. So the source looks at all of them first.
func (r *recorder) ends() bool {
	if r.err() != nil || !r.sink.Full() {
		return false
	}
	if r.looked == nil {
		r.looked, r.full = r.look(), r.now
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
