package profile

import "github.com/gotach/profiler/internal/stream"

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

// Sums returns the profile with CPU time only, if cpu is set, and with groups by the label key, if that
// is not empty.
func (p *Profile) Sums(key string, cpu bool) *Profile {
	out := *p
	out.Records = nil
	for _, r := range p.Records {
		if cpu {
			if r.Wall = r.CPU; r.CPU == 0 {
				continue
			}
		}
		if key != "" {
			value, ok := r.Labels[key]
			if r.Group = value; !ok {
				r.Group = "[no label " + key + "]"
			}
		}
		out.Records = append(out.Records, r)
	}
	return &out
}
