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

	count int  // of its goroutines
	more  bool // there may be more
	runs  int
	depth int // of the runs' stacks together
	wall  float64
	first uint64 // id of the first one
	main  bool

	own  bool // each goroutine has a track
	rest bool // it is in the track of other groups
}

// maxBlocks bounds the memory for counting goroutines. Ids are nearly successive numbers, 64 of
// which are a block.
const maxBlocks = 1 << 20

// groups are those of a source.
type groups struct {
	src     *stream.Source
	stacks  *stacks
	session bool // gotach recorded the files
	of      map[site]*group
	list    []*group
	blocks  map[block]uint64 // bits of the goroutines that were counted
}

// A block is 64 ids of goroutines.
type block struct {
	ids         uint64
	interpreter uint32
}

func newGroups(src *stream.Source, st *stacks) *groups {
	return &groups{src: src, stacks: st, session: src.Metadata().Session != nil, of: map[site]*group{}, blocks: map[block]uint64{}}
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

// find returns the group of a sample's goroutine. Further samples of the goroutine in the file are
// of the same group, whatever their stacks.
func (g *groups) find(s *stream.Sample) *group {
	key := site{kind: g.kind(s)}
	if key.kind == ofProgram && s.Creator != 0 {
		c := g.src.Creators()[s.Creator]
		key.by, key.at = c.Func, c.At
	}
	entry := g.stacks.entry(s.Stack)
	if key.by == "" {
		key.entry = entry
	}
	to := g.of[key]
	if to == nil {
		to = &group{site: key, entry: entry, first: s.Goroutine}
		g.of[key] = to
		g.list = append(g.list, to)
	}
	return to
}

// add counts the goroutine of a sample, which is its first one in a file. Above a very large number
// of goroutines, it no longer counts.
func (g *groups) add(to *group, s *stream.Sample) {
	key, bit := block{s.Goroutine / 64, s.Interpreter}, uint64(1)<<(s.Goroutine%64)
	bits, ok := g.blocks[key]
	switch {
	case bits&bit != 0:
	case !ok && len(g.blocks) == maxBlocks:
		to.more = true
	default:
		g.blocks[key] = bits | bit
		to.count++
	}
}

// plan decides which groups get a track for each goroutine. It returns the number of groups that
// share one track.
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
		return cmp.Or(cmp.Compare(a.count, b.count), cmp.Compare(a.runs, b.runs))
	})
	for _, x := range order {
		if x.kind == ofProcess || x.rest || x.more || tracks+x.count-1 > l.Tracks || runs+x.runs > l.Runs || l.Frames > 0 && depth+x.depth > l.Frames {
			continue
		}
		x.own = true
		tracks, runs, depth = tracks+x.count-1, runs+x.runs, depth+x.depth
	}
	return others
}

// vague reports whether it is not known yet with which function a goroutine began: a stack may only
// have a wait frame, such as [runnable, not started].
func vague(entry string) bool { return entry == "" || entry[0] == '[' }

func (g *group) vague() bool { return g.kind != ofProcess && vague(g.entry) }

// number returns how many goroutines a group has, as text.
func (g *group) number() string {
	text := thousands(g.count)
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
	case g.by != "" && g.count > 1:
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
	case g.count == 1:
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
