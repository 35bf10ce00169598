package sampler

import (
	"time"

	"github.com/gotach/profiler/tachyon"
)

// seam returns the end of a part that ends now.
func (r *recorder) seam() time.Duration { return r.now.Truncate(time.Microsecond) }

// collect returns this part, which ends at end. now has the stats of the whole session.
func (r *recorder) collect(end time.Duration, now Stats) Part {
	now.Duration, now.Counts = end-r.part, now.Since(r.told)
	return Part{Start: r.part, End: end, Stats: now, Goroutines: r.goroutines(), PCs: r.leafPCs()}
}

// cut ends this part, returns it, and begins the next one. It forgets goroutines that cannot have
// another sample. Of the other goroutines it keeps only the present labels.
func (r *recorder) cut() Part {
	now, end := r.stats(), r.seam()
	p := r.collect(end, now)
	r.told, r.part = now.Counts, end
	r.most.Store(r.live.Load())
	clear(r.pcs)
	r.objects.forget()
	r.spans = 0
	for _, k := range r.known {
		if k.retired && once(k.CreatedBy) {
			r.ended--
			r.drop(k)
			continue
		}
		k.sampled, k.weight, k.full, k.leaf = false, 0, false, nil
		switch n := len(k.labels); {
		case n == 0:
		case len(k.labels[n-1].Labels) == 0: // a part begins without labels anyway
			k.labels = nil
		default:
			k.labels = []tachyon.LabelSpan{{Labels: k.labels[n-1].Labels}}
			r.spans++
		}
	}
	return p
}
