package perlnytprof

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/nytprof"
)

// Profile makes stacks of what NYTProf measured. The exclusive time of each sub
// along each path of the call tree is a stack's. NYTProf does not say which
// path spent how much on which line: a sub's lines share its time as their
// statements took time, so that sums per line, per sub and per path are
// right. Statements outside of all subs are main::RUNTIME's.
//
// Without a call tree (option calls=0) a stack is a sub's caller and, above it,
// each sub's most expensive caller, so that only times of subs and their direct
// callers are exact. Samples are executions of statements.
func Profile(d *nytprof.Data) (*profile.Profile, error) {
	tps := d.TicksPerSecond()
	if tps == 0 {
		return nil, errors.New("NYTProf: without the attribute ticks_per_sec its times mean nothing")
	}
	im := importer{
		d: d, tick: 1e9 / tps,
		b:      profile.NewBuilder(),
		ours:   ours(d),
		cpu:    d.Option("usecputime") != "" && d.Option("usecputime") != "0",
		files:  make(map[uint32]*nytprof.File),
		subs:   make(map[string]*nytprof.Sub),
		callAt: make(map[[2]string]nytprof.Caller),
		lines:  make(map[*nytprof.Sub][]lineTicks),
		paths:  make(map[*nytprof.Sub][]path),
	}
	im.b.Profile.Program = d.Attribute("application")
	im.index()
	im.sortLines()
	if d.Calls != nil && len(d.Calls.Calls) > 0 {
		im.treePaths()
	} else {
		im.callerPaths()
	}
	im.records()
	if im.frameIDs > maxFrameIDs {
		return nil, fmt.Errorf("NYTProf: its stacks have more than %d frames", maxFrameIDs)
	}
	im.head()
	return im.b.Finish(), nil
}

// Function returns the name of a sub of d in its Profile. In files that gotach wrote it is
// the Go function's name.
func Function(d *nytprof.Data, sub string) string {
	if ours(d) {
		return goName(sub)
	}
	return sub
}

// ours reports whether gotach wrote the file.
func ours(d *nytprof.Data) bool { return d.Attribute(attrInterval) != "" }

// importer makes a profile of d.
type importer struct {
	d    *nytprof.Data
	b    *profile.Builder
	tick float64 // ns
	ours bool    // gotach wrote it: names are Go's
	cpu  bool    // its times are CPU time

	files  map[uint32]*nytprof.File
	subs   map[string]*nytprof.Sub
	callAt map[[2]string]nytprof.Caller // by caller and called sub: the most expensive place
	lines  map[*nytprof.Sub][]lineTicks // a sub's lines; nil's are those outside of all
	paths  map[*nytprof.Sub][]path

	frameIDs int // in all stacks
}

// maxFrameIDs bounds the stacks of a profile: a small damaged file could have a deep
// call tree. It is a variable for tests.
var maxFrameIDs = 1 << 28

// lineTicks is a line's own time, without that of subs in C that it called.
type lineTicks struct {
	file  *nytprof.File
	line  uint32
	ticks int64
	count int64
}

func (im *importer) index() {
	for _, f := range im.d.Files {
		im.files[f.FID] = f
	}
	for _, s := range im.d.Subs {
		im.subs[s.Name] = s
		for _, c := range s.Callers {
			key := [2]string{c.Sub, s.Name}
			if best, ok := im.callAt[key]; !ok || c.Incl > best.Incl {
				im.callAt[key] = c
			}
		}
	}
}

// at returns the frame of a sub at a line.
func (im *importer) at(sub string, fid, line uint32) uint32 {
	f := profile.Frame{Func: sub, Line: int32(min(line, math.MaxInt32))}
	if im.ours {
		f.Func = goName(sub)
	}
	if file := im.files[fid]; file != nil && line != 0 {
		f.File = file.Name
	}
	if f.File == "" || im.ours && f.File == noFile {
		f.File, f.Line = "", 0
	}
	start := uint32(0)
	if s := im.subs[sub]; s != nil && f.File != "" && s.FID == fid {
		start = s.First
	}
	return im.b.Frame(f, int32(min(start, math.MaxInt32)))
}

// sortLines finds the sub of each line: the innermost one around it.
func (im *importer) sortLines() {
	inC := make(map[[2]uint32]float64) // seconds, by file and line
	byFile := make(map[uint32][]*nytprof.Sub)
	for _, s := range im.d.Subs {
		if s.First > 0 {
			byFile[s.FID] = append(byFile[s.FID], s)
			continue
		}
		if !im.d.Sampled {
			for _, c := range s.Callers {
				inC[[2]uint32{c.FID, c.Line}] += c.Incl
			}
		}
	}
	for _, f := range im.d.Files {
		subs := byFile[f.FID]
		slices.SortStableFunc(subs, func(a, b *nytprof.Sub) int {
			return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(b.Last, a.Last))
		})
		var open []*nytprof.Sub // around the line; inner ones begin later
		for _, line := range slices.Sorted(maps.Keys(f.Lines)) {
			for len(subs) > 0 && subs[0].First <= line {
				open = append(open, subs[0])
				subs = subs[1:]
			}
			for len(open) > 0 && open[len(open)-1].Last < line {
				open = open[:len(open)-1]
			}
			var in *nytprof.Sub
			if len(open) > 0 {
				in = open[len(open)-1]
			}
			t := lineTicks{f, line, f.Lines[line].Ticks, f.Lines[line].Count}
			t.ticks -= int64(inC[[2]uint32{f.FID, line}] * 1e9 / im.tick)
			t.ticks = max(t.ticks, 0)
			im.lines[in] = append(im.lines[in], t)
		}
	}
}

// runtimeSub is what perl calls the main program.
const runtimeSub = "main::RUNTIME"

// records lays the lines of each sub, end to end, beside its paths.
func (im *importer) records() {
	for _, s := range append(slices.Clone(im.d.Subs), nil) {
		lines, paths := im.lines[s], im.paths[s]
		delete(im.paths, s)
		name := runtimeSub
		if s != nil {
			name = s.Name
		}
		if len(paths) == 0 {
			// Only statements were timed, or this is no sub's time. gotach's
			// files give all of it to subs.
			if im.d.Sampled || s != nil && len(s.Callers) > 0 {
				continue
			}
			for _, t := range lines {
				im.record(im.at(name, t.file.FID, t.line), nil, t.ticks, t.count)
			}
			continue
		}
		im.share(s, lines, paths)
	}
	// Subs that only the tree knows, as in a truncated file.
	for _, s := range slices.SortedFunc(maps.Keys(im.paths), func(a, b *nytprof.Sub) int { return cmp.Compare(a.Name, b.Name) }) {
		im.share(s, nil, im.paths[s])
	}
}

// share gives the time of each path of a sub to the sub's lines.
func (im *importer) share(s *nytprof.Sub, lines []lineTicks, paths []path) {
	var total, of float64 // ticks of all paths, of all lines
	for _, p := range paths {
		total += float64(p.ticks)
	}
	for _, t := range lines {
		of += float64(t.ticks)
	}
	if of == 0 {
		t := lineTicks{file: im.files[s.FID], line: s.First, ticks: 1}
		lines, of = []lineTicks{t}, 1
	}
	i, used := 0, 0.0 // the line being given out, and ticks of lines before it
	given := int64(0) // ticks of paths given out
	counted := int64(0)
	for _, p := range paths {
		for left := p.ticks; left > 0; {
			t := lines[i]
			end := int64(math.Round((used + float64(t.ticks)) / of * total))
			n := left
			if i < len(lines)-1 {
				n = min(left, end-given)
			}
			given += n
			count := t.count
			if given < end { // the rest of this line is another path's
				begin := used / of * total
				count = int64(float64(t.count) * (float64(given) - begin) / (float64(end) - begin))
			}
			count = max(count-counted, 0)
			if n > 0 {
				counted += count
				fid := uint32(0)
				if t.file != nil {
					fid = t.file.FID
				}
				im.record(im.at(s.Name, fid, t.line), p.callers, n, count)
				left -= n
			}
			if given >= end && i < len(lines)-1 {
				used += float64(t.ticks)
				i++
				counted = 0
			}
		}
	}
}

func (im *importer) record(leaf uint32, callers []uint32, ticks, count int64) {
	im.frameIDs += 1 + len(callers)
	if ticks == 0 && count == 0 || im.frameIDs > maxFrameIDs {
		return
	}
	r := profile.Record{
		Stack: append([]uint32{leaf}, callers...),
		Count: count,
		Wall:  time.Duration(min(math.Round(float64(ticks)*im.tick), math.MaxInt64/2)),
	}
	r.State = profile.LeafState(im.b.Profile.Frames[leaf])
	if im.cpu {
		r.CPU = r.Wall
	}
	im.b.Add(r)
}

// head sets the fields that describe the profile as a whole.
func (im *importer) head() {
	p := im.b.Profile
	var seconds float64
	for i, run := range im.d.Processes {
		if i == 0 || epoch(run.Start).Before(p.Start) {
			p.Start = epoch(run.Start)
		}
		seconds += max(run.End-run.Start, 0)
	}
	p.Duration = time.Duration(min(seconds*1e9, math.MaxInt64/2))
	if !im.ours {
		return
	}
	p.Duration = time.Duration(im.integer(attrDuration))
	p.Interval = time.Duration(im.integer(attrInterval))
	p.Goroutines = int(min(im.integer(attrGoroutines), math.MaxInt32))
}

// integer returns an attribute of ours, 0 if it is damaged.
func (im *importer) integer(key string) int64 {
	n, err := strconv.ParseInt(im.d.Attribute(key), 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

func epoch(seconds float64) time.Time {
	if !(seconds > 0 && seconds < 1e11) {
		return time.Time{}
	}
	return time.UnixMicro(int64(math.Round(seconds * 1e6)))
}
