package formats

import (
	"fmt"
	"time"

	"github.com/gotach/profiler/profile"
)

// profileInfo is what is known of a format that says no more than a Profile.
func profileInfo(f *Format, p *profile.Profile) []Field {
	wall, cpu := p.Total()
	list := []Field{
		{"format", "format", f.Name, f.Name + ": " + f.Doc},
		{"program", "program", p.Program, p.Program},
		{"samples", "samples", p.Samples, fmt.Sprint(p.Samples)},
		{"goroutines", "goroutines", p.Goroutines, fmt.Sprint(p.Goroutines)},
		{"interval_us", "interval", p.Interval.Microseconds(), p.Interval.String()},
		{"duration_ns", "duration", p.Duration, p.Duration.String()},
		{"wall_ns", "wall time", wall, wall.String()},
		{"cpu_ns", "CPU time", cpu, cpu.String()},
		{"frames", "frames", len(p.Frames), fmt.Sprint(len(p.Frames))},
		{"stacks", "stacks", len(p.Records), fmt.Sprint(len(p.Records))},
	}
	if !p.Start.IsZero() {
		list = append(list, Field{"start", "start", p.Start, p.Start.Format(time.RFC3339)})
	}
	return list
}

// verified is what Verify says of a format that says no more than a Profile.
func verified(p *profile.Profile) string {
	wall, _ := p.Total()
	return fmt.Sprintf("%d samples in %d different stacks, %s in all", p.Samples, len(p.Records), wall)
}
