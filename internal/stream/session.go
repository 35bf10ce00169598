package stream

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gotach/profiler/tachyon"
)

// join returns what is known about all parts, without goroutines and objects. Durations count only
// after the parts were read.
func (s *Source) join() *tachyon.Metadata {
	m := s.parts[0].Metadata
	if len(s.parts) > 1 {
		m = &tachyon.Metadata{Session: joinSessions(s.parts), PCs: joinPCs(s.parts)}
	}
	if s.chooser != nil {
		return s.chooser.cut(m)
	}
	return m
}

// joinSessions adds up the files' sessions. It returns nil if any file has none. Facts
// that differ are left out.
func joinSessions(files []*Part) *tachyon.Session {
	var out tachyon.Session
	var end time.Time
	for i, f := range files {
		s := f.Metadata.Session
		if s == nil {
			return nil
		}
		if to := s.Start.Add(partLength(f)); to.After(end) {
			end = to
		}
		if i == 0 {
			out = *s
			out.Part, out.SessionStart = 0, time.Time{}
			continue
		}
		if f.Process != files[0].Process {
			out.PID = 0
			out.Host = same(out.Host, s.Host)
			out.Program = same(out.Program, s.Program)
			out.Module, out.Version = same(out.Module, s.Module), same(out.Version, s.Version)
			out.Service, out.ServiceVersion = same(out.Service, s.Service), same(out.ServiceVersion, s.ServiceVersion)
			out.Stops = false // see Copy.Stops
			out.BuildID, out.Executable = same(out.BuildID, s.BuildID), same(out.Executable, s.Executable)
		}
		out.Markers, out.Stops = out.Markers || s.Markers, out.Stops && s.Stops
		out.Error, out.Kept = cmp.Or(out.Error, s.Error), cmp.Or(out.Kept, s.Kept)
		out.SourceReason = cmp.Or(out.SourceReason, s.SourceReason)
		out.Counts = out.Counts.Plus(s.Counts)
		out.Leaks = joinLeaks(out.Leaks, s.Leaks)
	}
	out.System = out.Markers && !mixed(files) // see Part.Interpreter
	out.Duration = end.Sub(out.Start)
	if out.TicksAsked > 0 { // not divided by Duration: there may be time between the files
		out.RateReached = float64(out.Rate) * float64(out.TicksReached) / float64(out.TicksAsked)
	}
	return &out
}

// partLength returns how long the session of a part is.
func partLength(p *Part) time.Duration {
	if d := p.Metadata.Session.Duration; d > 0 {
		return d
	}
	return time.Duration(min(p.End-min(p.End, p.Header.Start), math.MaxInt64/1000)) * time.Microsecond // it was not stopped
}

// joinLeaks returns the leaks of two files. Of a session with several files only the last one has
// them.
func joinLeaks(a, b *tachyon.ProvenLeaks) *tachyon.ProvenLeaks {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return &tachyon.ProvenLeaks{
		Unavailable: cmp.Or(a.Unavailable, b.Unavailable), Count: a.Count + b.Count, Groups: slices.Concat(a.Groups, b.Groups),
	}
}

// same returns a if b is equal to it, else "".
func same(a, b string) string {
	if a == b {
		return a
	}
	return ""
}

// joinPCs adds up the leaf PCs of the files. It returns nil if they are not all of one
// executable, or any file has none.
func joinPCs(files []*Part) *tachyon.LeafPCs {
	sums := map[uint64]*tachyon.LeafPC{}
	first := files[0].Metadata
	for _, f := range files {
		p, s := f.Metadata.PCs, f.Metadata.Session
		if p == nil || s == nil || s.BuildID != first.Session.BuildID ||
			p.TextStart != first.PCs.TextStart || p.TextSize != first.PCs.TextSize {
			return nil
		}
		for _, pc := range p.PCs {
			into := sums[pc.Addr]
			if into == nil {
				into = &tachyon.LeafPC{Addr: pc.Addr}
				sums[pc.Addr] = into
			}
			into.CPU += min(pc.CPU, math.MaxUint32-into.CPU)
			into.Wall += min(pc.Wall, math.MaxUint32-into.Wall)
			into.CPUTime += pc.CPUTime
			into.WallTime += pc.WallTime
		}
	}
	out := &tachyon.LeafPCs{TextStart: first.PCs.TextStart, TextSize: first.PCs.TextSize}
	for _, pc := range sums {
		out.PCs = append(out.PCs, *pc)
	}
	slices.SortFunc(out.PCs, func(a, b tachyon.LeafPC) int { return cmp.Compare(a.Addr, b.Addr) })
	return out
}
