package leaks

import (
	"cmp"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/stream"
)

// leaksOfProcesses is Find for files of several processes. Each process is judged by itself,
// because processes come and go: what waits when the files of a process end has not ended. Groups
// that were created and wait at the same place are one row. It returns nil if all files are of one
// process.
func leaksOfProcesses(s *analyze.Samples) (*Leaks, error) {
	list := s.Source.Processes()
	if list == nil {
		return nil, nil
	}
	var out *Leaks
	length := uint64(0)
	for src, err := range list {
		var one *Leaks
		if stream.IsNoTime(err) {
			continue
		}
		if err == nil {
			one, err = findLeaks(analyze.NewSamples(s.Name, src))
		}
		if err = s.Source.Damage(err); err != nil {
			return nil, err
		}
		if one == nil {
			continue
		}
		length = max(length, src.Header().Start+uint64(one.Duration.Microseconds())-s.Start)
		if out == nil {
			out = one
		} else {
			out.add(one)
		}
	}
	if out == nil {
		return &Leaks{Groups: []Group{}}, nil
	}
	out.Duration = time.Duration(length) * time.Microsecond
	out.sort()
	return out, nil
}

// add adds the groups of another process.
func (l *Leaks) add(other *Leaks) {
	l.Goroutines += other.Goroutines
	l.Asked = l.Asked || other.Asked
	l.Proven += other.Proven
	l.ProvenUnknown = cmp.Or(l.ProvenUnknown, other.ProvenUnknown)
	for _, g := range other.Groups {
		at := slices.IndexFunc(l.Groups, func(x Group) bool {
			return x.CreatedBy == g.CreatedBy && x.CreatedAt == g.CreatedAt && x.Reason == g.Reason && x.Function == g.Function && x.File == g.File && x.Line == g.Line
		})
		if at >= 0 {
			l.Groups[at].add(&g)
		} else if len(l.Groups) < maxGroups {
			l.Groups = append(l.Groups, g)
		}
	}
}

// add adds the same group of another process.
func (g *Group) add(other *Group) {
	g.Start += other.Start
	g.End += other.End
	g.Cut += other.Cut
	g.PerMinute += other.PerMinute
	g.Low += other.Low
	g.Oldest = max(g.Oldest, other.Oldest)
	g.RanAgain += other.RanAgain
	g.Stuck += other.Stuck
	g.Unstuck += other.Unstuck
	g.Stays += other.Stays
	g.Left += other.Left
	g.Suspect = g.Suspect || other.Suspect
	g.Proven += other.Proven
	// Parts of the one process's time are added to those of the other's.
	a, b := g.Alive, other.Alive
	if len(a) < len(b) {
		a, b = b, a
	}
	g.Alive = slices.Clone(a)
	for i := range g.Alive {
		if len(b) > 0 {
			g.Alive[i] += b[i*len(b)/len(a)]
		}
	}
}
