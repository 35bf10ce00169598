package profile

import "maps"

// Sum adds profiles up into one. Goroutines of equal ids count as one.
func Sum(list []*Profile) *Profile {
	if len(list) == 1 {
		return list[0]
	}
	out := &Profile{}
	frames := map[Frame]uint32{}
	starts := map[uint32]int32{}
	records := map[string]int{}
	goroutines := map[uint64]struct{}{}
	for i, p := range list {
		if i == 0 {
			out.Program, out.Start, out.Interval = p.Program, p.Start, p.Interval
		}
		out.Unitless = out.Unitless || p.Unitless
		if p.Program != out.Program {
			out.Program = ""
		}
		if p.Interval != out.Interval {
			out.Interval = 0
		}
		if !p.Start.IsZero() && p.Start.Before(out.Start) {
			out.Start = p.Start
		}
		out.Duration = add(out.Duration, p.Duration)
		ids := make([]uint32, len(p.Frames))
		for k, f := range p.Frames {
			id, ok := frames[f]
			if !ok {
				id = uint32(len(out.Frames))
				frames[f] = id
				out.Frames = append(out.Frames, f)
			}
			ids[k] = id
			if p.StartLines != nil && p.StartLines[k] != 0 {
				starts[id] = p.StartLines[k]
			}
		}
		for _, r := range p.Records {
			stack := make([]uint32, len(r.Stack))
			for k, id := range r.Stack {
				stack[k] = ids[id]
			}
			r.Stack, r.Labels = stack, maps.Clone(r.Labels)
			out.merge(r, records)
			if p.Goroutines > 0 {
				goroutines[r.Goroutine] = struct{}{}
			}
		}
	}
	out.Goroutines = len(goroutines)
	if len(starts) > 0 {
		out.StartLines = make([]int32, len(out.Frames))
		for id, line := range starts {
			out.StartLines[id] = line
		}
	}
	return out
}
