package report

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/analyze/cores"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

// errSeveral says that who had the cores is known of one process only.
var errSeveral = errors.New("the files are of several processes, and who had the cores is known of one only; give the files of one")

// ranInstead returns a profile of the time in which goroutines waited for a core. The group of a
// record is who had the cores meanwhile. It reads the samples twice.
func ranInstead(src *stream.Source) (*profile.Profile, error) {
	if src.Processes() != nil {
		return nil, errSeveral
	}
	who := cores.New(src)
	all := func(yield func(*stream.Sample, error) bool) {
		for s, err := range src.Samples() {
			if err == nil {
				who.Add(s)
			}
			if !yield(s, err) {
				return
			}
		}
	}
	p, err := profile.FromSamples(src, all, profile.Detail{})
	if err != nil {
		return nil, err
	}
	who.Finish()
	type key struct {
		name, state string
		stack       uint32
	}
	times := map[key]float64{} // µs
	for s, err := range src.Samples() {
		if err != nil {
			return nil, err
		}
		if s.Unselected || !cores.Waits(s) {
			continue
		}
		state := src.State(s.Status, s.Stack)
		who.Charge(s, func(name string, t float64) { times[key{name, state, s.Stack}] += t })
	}
	p.Records, p.Frames = p.Records[:0], slices.Clone(src.Frames())
	for k, t := range times {
		r := profile.Record{Several: true, State: k.state, Group: k.name, Wall: time.Duration(1000 * t)}
		for at := k.stack; at != 0; at = src.Stacks()[at].Caller {
			r.Stack = append(r.Stack, src.Stacks()[at].Frame)
		}
		p.Records = append(p.Records, r)
	}
	slices.SortFunc(p.Records, func(a, b profile.Record) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.State, b.State), slices.Compare(a.Stack, b.Stack))
	})
	return p, nil
}
