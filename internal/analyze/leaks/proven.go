package leaks

import (
	"cmp"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
)

// proven adds what the runtime has proved. It says where leaked goroutines wait, not which groups
// they are of: of the groups that wait at one line the one with the most waits that have not ended
// gets them.
func (l *Count) proven(out *Leaks) {
	m := l.Source.Metadata().Session
	if m == nil || m.Leaks == nil {
		return
	}
	out.Asked, out.ProvenUnknown = true, m.Leaks.Unavailable
	if l.Source.Selects() {
		return // of the selected goroutines nobody knows
	}
	out.Proven = m.Leaks.Count
	type line struct {
		function, file string
		line           int
	}
	counts := map[line]int{}
	for _, g := range m.Leaks.Groups {
		at, best := line{}, profile.UnknownCode
		for _, f := range g.Frames { // as Samples.own
			if of := profile.CodeOf(&tachyon.Frame{Func: f.Func, File: f.File, Line: f.Line}); of > best {
				at, best = line{f.Func, f.File, int(f.Line)}, of
			}
		}
		counts[at] += g.Count
	}
	for at, count := range counts {
		best := -1 // a group that grows
		for i := range out.Groups {
			g := &out.Groups[i]
			if (line{g.Function, g.File, g.Line}) == at && (best < 0 || cmp.Or(cmp.Compare(g.Stuck, out.Groups[best].Stuck), cmp.Compare(g.End, out.Groups[best].End)) > 0) {
				best = i
			}
		}
		if best < 0 {
			best = len(out.Groups)
			row := Group{Function: at.function, File: at.file, Line: at.line}
			if g := l.waitsAt(at.function, at.file, at.line); g != nil {
				row = l.describe(g, g.alive.average(&l.clock, l.End))
			}
			out.Groups = append(out.Groups, row)
		}
		out.Groups[best].Proven = count
	}
}

// waitsAt returns the group with the most waits at a line that have not ended, nil if there is
// none.
func (l *Count) waitsAt(function, file string, line int) (most *leakGroup) {
	for _, g := range l.groups {
		site := &l.sites[g.site]
		if site.function == function && site.file == file && site.line == line && (most == nil || len(g.list) > len(most.list)) {
			most = g
		}
	}
	return most
}
