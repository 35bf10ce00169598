package profile

import "github.com/gotach/profiler/internal/frames"

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
		for id, f := range p.Frames {
			b.Frame(f, p.StartLine(uint32(id)))
		}
		remap := frames.Remap{From: p.Frames, To: &b.frames}
		for _, r := range p.Records {
			r.Stack, _ = remap.Stack(r.Stack) // all its frames are p's
			b.Add(r)
		}
	}
	return b.Finish()
}
