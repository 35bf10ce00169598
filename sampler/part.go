package sampler

import (
	"time"

	"github.com/gotach/profiler/tachyon"
)

// seam is when a part that ends now ends.
func (c *collector) seam() time.Duration { return c.now.Truncate(time.Microsecond) }

// collect returns what is known of the part up to a time, and of the session now.
func (c *collector) collect(end time.Duration, now Stats) Part {
	now.Duration, now.Counts = end-c.part, now.Since(c.told)
	return Part{Start: c.part, End: end, Stats: now, Goroutines: c.goroutines(), PCs: c.leafPCs()}
}

// cut ends the part that is collected and begins the next. Goroutines that
// cannot have another sample are forgotten, and so are the labels that one had
// before those it has now.
func (c *collector) cut() Part {
	now, end := c.stats(), c.seam()
	p := c.collect(end, now)
	c.told, c.part = now.Counts, end
	c.most.Store(c.live.Load())
	clear(c.pcs)
	c.spans = 0
	for _, k := range c.known {
		if k.retired && once(k.CreatedBy) {
			c.ended--
			c.drop(k)
			continue
		}
		k.sampled, k.weight, k.full, k.leaf = false, 0, false, nil
		switch n := len(k.labels); {
		case n == 0:
		case len(k.labels[n-1].Labels) == 0: // which is where a part begins anyway
			k.labels = nil
		default:
			k.labels = []tachyon.LabelSpan{{Labels: k.labels[n-1].Labels}}
			c.spans++
		}
	}
	return p
}
