package profile

// Sum adds profiles up into one. Goroutines of equal ids count as one.
func Sum(list []*Profile) *Profile {
	if len(list) == 1 {
		return list[0]
	}
	b := NewBuilder()
	out := b.Profile
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
			start := int32(0)
			if p.StartLines != nil {
				start = p.StartLines[k]
			}
			ids[k] = b.Frame(f, start)
		}
		var stack []uint32
		for _, r := range p.Records {
			stack = stack[:0]
			for _, id := range r.Stack {
				stack = append(stack, ids[id])
			}
			r.Stack = stack
			b.Add(r)
		}
	}
	return b.Finish()
}
