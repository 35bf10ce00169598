package runs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// The kinds of threads.
const (
	ofProgram = iota // a goroutine
	ofRuntime        // one of the runtime's own
	ofProcess        // CPU time that no goroutine used, or time without samples
)

// A site is what goroutines of a group have in common.
type site struct {
	kind  uint8
	entry string // function; "" if by is known
	by    string // the function with the go statement
	at    string // file:line of it
}

// A group is goroutines that one go statement created.
type group struct {
	site
	entry string // function with which one of them began
	seen  int    // number in order of appearance

	ids   map[uint64]struct{} // of its goroutines, at most maxIDs of all groups together
	more  bool                // there are more than ids
	runs  int
	depth int // of the runs' stacks together
	wall  float64
	first uint64 // id of the first one
	main  bool

	own  bool // each goroutine has a track
	rest bool // it is in the track of other groups
}

// maxIDs is the number of goroutines that are counted exactly.
const maxIDs = 1 << 20

// groups knows the group of each goroutine of the present file.
type groups struct {
	src     *stream.Source
	stacks  *stacks
	session bool // gotach recorded the files
	of      map[site]*group
	list    []*group
	ids     int

	file    int // number of the file + 1
	created []created
	sites   []site
}

// A created says where a goroutine of the present file was created.
type created struct {
	id   uint64
	site uint32 // index into sites
}

func newGroups(src *stream.Source, st *stacks) *groups {
	return &groups{src: src, stacks: st, session: src.Metadata().Session != nil, of: map[site]*group{}}
}

// kind returns what has a sample's time.
func (g *groups) kind(s *stream.Sample) uint8 {
	switch {
	case s.NotSeen, g.session && s.Interpreter == tachyon.Process:
		return ofProcess
	case g.session && s.Interpreter != tachyon.User:
		return ofRuntime
	}
	return ofProgram
}

// find returns the group of a sample's goroutine. Further samples of the goroutine in the file are of the same
// group, whatever their stacks.
func (g *groups) find(s *stream.Sample) (*group, error) {
	if file, _ := g.src.File(); g.file != file+1 {
		if err := g.load(file); err != nil {
			return nil, err
		}
	}
	key := site{kind: g.kind(s)}
	if key.kind == ofProgram {
		id := stream.GoroutineInFile(s.Goroutine)
		i, ok := slices.BinarySearchFunc(g.created, id, func(x created, id uint64) int { return cmp.Compare(x.id, id) })
		if ok {
			key = g.sites[g.created[i].site]
		}
	}
	if key.by == "" {
		key.entry = g.stacks.entry(s.Stack)
	}
	to := g.of[key]
	if to == nil {
		to = &group{site: key, entry: g.stacks.entry(s.Stack), seen: len(g.list), first: s.Goroutine, ids: map[uint64]struct{}{}}
		g.of[key] = to
		g.list = append(g.list, to)
	}
	return to, nil
}

// load reads where the goroutines of a file were created.
func (g *groups) load(file int) error {
	g.file, g.created, g.sites = file+1, g.created[:0], nil
	number := map[site]uint32{}
	_, f := g.src.File()
	for x, err := range stream.Goroutines(f.Stream) {
		if err != nil {
			return err
		}
		if x.CreatedBy == "" {
			continue
		}
		key := site{by: x.CreatedBy, at: x.CreatedAt}
		n, ok := number[key]
		if !ok {
			n = uint32(len(g.sites))
			number[key] = n
			g.sites = append(g.sites, key)
		}
		g.created = append(g.created, created{x.ID, n})
	}
	slices.SortStableFunc(g.created, func(a, b created) int { return cmp.Compare(a.id, b.id) })
	return nil
}

// count counts a goroutine of a group at its first sample in a file.
func (g *groups) count(to *group, id uint64) {
	if _, ok := to.ids[id]; ok {
		return
	}
	if g.ids == maxIDs {
		to.more = true
		return
	}
	g.ids++
	to.ids[id] = struct{}{}
}

// plan decides which groups get a track for each goroutine. It returns the number of groups that share one track.
func (g *groups) plan(l Limits) (others int) {
	tracks, runs, depth := len(g.list), 0, 0
	if tracks > l.Tracks {
		byTime := slices.Clone(g.list)
		slices.SortStableFunc(byTime, func(a, b *group) int { return cmp.Compare(b.wall, a.wall) })
		for _, x := range byTime[l.Tracks-1:] {
			x.rest = true
			others++
		}
		tracks = l.Tracks
	}
	order := slices.Clone(g.list)
	slices.SortStableFunc(order, func(a, b *group) int {
		return cmp.Or(cmp.Compare(len(a.ids), len(b.ids)), cmp.Compare(a.runs, b.runs))
	})
	for _, x := range order {
		if x.kind == ofProcess || x.rest || x.more || tracks+len(x.ids)-1 > l.Tracks || runs+x.runs > l.Runs || l.Frames > 0 && depth+x.depth > l.Frames {
			continue
		}
		x.own = true
		tracks, runs, depth = tracks+len(x.ids)-1, runs+x.runs, depth+x.depth
	}
	return others
}

// number returns how many goroutines a group has, as text.
func (g *group) number() string {
	text := thousands(len(g.ids))
	if g.more {
		text = "over " + text
	}
	return text
}

// what returns what the goroutines of a group do.
func (g *group) what() string {
	name := profile.FuncName(g.entry)
	switch {
	case g.kind == ofRuntime:
		name += " (runtime)"
	case g.by != "" && len(g.ids) > 1:
		name += ", created by " + profile.FuncName(g.by)
		if i := strings.LastIndexByte(g.at, '/'); g.at != "" {
			name += " at " + g.at[i+1:]
		}
	}
	return name
}

// trackName is the name of a group's track.
func (g *group) trackName() string {
	switch {
	case g.kind == ofProcess:
		return g.entry
	case len(g.ids) == 1:
		return g.goroutineName(g.first, g.entry)
	}
	return g.number() + " goroutines of " + g.what()
}

// goroutineName is the name of a goroutine's track, given the function with which it began.
func (g *group) goroutineName(id uint64, entry string) string {
	name := fmt.Sprintf("goroutine %d", id)
	if entry = profile.FuncName(entry); entry != "" && entry != name { // SPX's roots have that name
		name += " " + entry
	}
	if g.kind == ofRuntime {
		name += " (runtime)"
	}
	return name
}

// thousands writes a number with commas.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
