package profile

import (
	"cmp"
	"slices"

	"github.com/gotach/profiler/internal/stream"
)

// Select returns the profile of the records that are selected. The selection has no times.
func (p *Profile) Select(sel *stream.Selection) *Profile {
	out := *p
	out.Records, out.Samples, out.Goroutines = nil, 0, 0
	goroutines := map[uint64]bool{}
	for i := range p.Records {
		r := &p.Records[i]
		if !sel.Has(r.Labels, r.State, r.Goroutine) {
			continue
		}
		out.Records = append(out.Records, *r)
		out.Samples += r.Count
		if r.Goroutine != 0 && !goroutines[r.Goroutine] {
			goroutines[r.Goroutine] = true
			out.Goroutines++
		}
	}
	return &out
}

// OnlyCPU returns the profile with CPU time in place of wall time.
func (p *Profile) OnlyCPU() *Profile {
	out := *p
	out.Records = nil
	for _, r := range p.Records {
		if r.Wall = r.CPU; r.CPU != 0 {
			out.Records = append(out.Records, r)
		}
	}
	return &out
}

// GroupByLabel returns the profile with the values of a label as groups.
func (p *Profile) GroupByLabel(key string) *Profile {
	out := *p
	out.Records = slices.Clone(p.Records)
	for i := range out.Records {
		r := &out.Records[i]
		value, ok := r.Labels[key]
		if r.Group = cmp.Or(value, "[empty]"); !ok {
			r.Group = "[no label " + key + "]"
		}
	}
	return &out
}
