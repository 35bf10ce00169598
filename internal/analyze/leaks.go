package analyze

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/gotach/profiler/tachyon"
)

// Leaks are the groups of waiting goroutines that grow. A group is the goroutines that were created
// at one place and wait at one place. Its growth is the Theil-Sen slope of the number of goroutines
// that wait there.
type Leaks struct {
	Duration   time.Duration `json:"duration_ns"`
	Goroutines int           `json:"goroutines"` // all that have samples
	Groups     []LeakGroup   `json:"groups"`     // proven ones first, then suspects, then by growth
	// Proven is the number of goroutines that the runtime proved to be leaked when the session was stopped.
	// ProvenUnknown says why it could not. Asked is false if it was not asked.
	Asked         bool   `json:"asked"`
	Proven        int    `json:"proven"`
	ProvenUnknown string `json:"proven_unknown,omitempty"`
}

// A LeakGroup is a group that grows, or that has proven leaks. It is a suspect if
//   - the number of goroutines that wait there grows, and the lower bound of its slope is above 0,
//   - so does the number of waits that have not ended at the end of the profile, by the times at
//     which they began,
//   - waits that have lasted for an eighth of the profile do not end: there are at least
//     minStuck such waits, and at most a tenth as many that ended.
type LeakGroup struct {
	CreatedBy string        `json:"created_by"`    // function; "" if unknown
	CreatedAt string        `json:"created_at"`    // file:line
	Reason    string        `json:"reason"`        // such as "chan receive"
	For       string        `json:"for,omitempty"` // what the goroutines wait for, such as "the next request"; "" if unknown
	Function  string        `json:"function"`      // innermost one of the program's own code
	File      string        `json:"file"`
	Line      int           `json:"line"`
	Start     int           `json:"start"` // goroutines that wait there at the start
	End       int           `json:"end"`   // at the end
	PerMinute float64       `json:"per_minute"`
	Low       float64       `json:"per_minute_low"` // lower bound of the 95 % interval
	Oldest    time.Duration `json:"oldest_ns"`      // how long the longest of the present waits has lasted
	RanAgain  int           `json:"ran_again"`      // waits there that ended
	Stuck     int           `json:"stuck"`          // waits that have lasted for an eighth of the profile and last still
	Unstuck   int           `json:"stuck_ended"`    // waits that lasted as long and ended
	Suspect   bool          `json:"suspect"`
	Proven    int           `json:"proven"` // goroutines that wait here forever, as the runtime has proved
	Alive     []float64     `json:"alive"`  // goroutines that wait there, for equal parts of the time
}

const (
	// minStuck is the number of stuck waits below which chance may be the reason.
	minStuck = 5
	// maxGroups bounds the memory that groups take, a KB each.
	maxGroups = 20_000
)

// A waitSite is where a goroutine waits.
type waitSite struct {
	reason, function, file string
	line                   int
}

// A leakKey is what the goroutines of a group have in common.
type leakKey struct {
	creator uint32
	site    uint32 // index into leakCount.sites
}

// A leakGroup is the state of a group.
type leakGroup struct {
	leakKey
	alive series
	stuck series     // from the beginning of the waits that have not ended
	ended [65]uint32 // waits that ended, by the number of bits of their length in ms
	list  []uint64   // lengths of the present waits, µs
}

// A waiter is the state of a goroutine.
type waiter struct {
	group int32 // in which it waits, plus 1; 0: it does not wait
	stack uint32
	begin uint64 // of the wait, µs
	last  uint64 // time of the latest sample, µs
}

// A leakStack is what is known about a stack.
type leakStack struct {
	site  uint32 // index into leakCount.sites; 0: nothing yet
	plain uint32 // the first stack that is equal apart from the object that the goroutine waits for

	creator uint32 // of the goroutine that came to wait there last
	group   int32  // of that goroutine + 1; 0: none came
}

// A leakCount counts goroutines.
type leakCount struct {
	*Samples
	clock   clock
	slowest series // the greatest time between two samples of a waiting goroutine, by bin, µs
	groups  []*leakGroup
	number  map[leakKey]int32
	stacks  []leakStack // by stack
	sites   []waitSite
	siteOf  map[waitSite]uint32
	waitFor []string // by site: as LeakGroup.For
	idle    *Idle
	plain   map[stackSite]uint32
	waiters states[waiter]
	other   int32 // number of the group of what is beyond maxGroups
}

// The numbers of sites that are none.
const (
	notKnown   = 0 // nothing is known about the time
	notWaiting = 1
	otherSites = 2 // of the group of what is beyond maxGroups
)

// FindLeaks finds groups of goroutines that grow. The samples must have creators (stream.Options).
func FindLeaks(s *Samples) (*Leaks, error) {
	if !s.src.KnowsCreators() {
		return nil, errNoCreators
	}
	if l, err := leaksOfProcesses(s); l != nil || err != nil {
		return l, err
	}
	return findLeaks(s)
}

// findLeaks is FindLeaks for one process.
func findLeaks(s *Samples) (*Leaks, error) {
	l := newLeakCount(s)
	for s, err := range s.all() {
		if err != nil {
			return nil, err
		}
		l.add(s)
	}
	return l.result(), nil
}

func newLeakCount(s *Samples) *leakCount {
	return &leakCount{
		Samples: s, clock: clock{width: max(s.interval(), 1000)}, number: map[leakKey]int32{},
		waiters: states[waiter]{src: s.src, keep: func(w *waiter) bool { return w.group != 0 }}, plain: map[stackSite]uint32{},
		sites: []waitSite{{}, {}, {reason: "other"}}, siteOf: map[waitSite]uint32{}, waitFor: make([]string, 3), idle: NewIdle(s.src),
	}
}

// result returns the groups, after all samples were added.
func (l *leakCount) result() *Leaks {
	out := &Leaks{Groups: []LeakGroup{}}
	l.clock.cover(l.end)
	l.survivors()
	out.Goroutines = l.src.Goroutines()
	out.Duration = time.Duration(l.end) * time.Microsecond
	for _, g := range l.groups {
		if row, ok := l.row(g); ok {
			out.Groups = append(out.Groups, row)
		}
	}
	l.proven(out)
	out.sort()
	return out
}

// sort sorts the groups.
func (l *Leaks) sort() {
	slices.SortStableFunc(l.Groups, func(a, b LeakGroup) int {
		if (a.Proven > 0) != (b.Proven > 0) {
			if a.Proven > 0 {
				return -1
			}
			return 1
		}
		if a.Suspect != b.Suspect {
			if a.Suspect {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.PerMinute, a.PerMinute), cmp.Compare(b.Proven, a.Proven), cmp.Compare(b.End, a.End), cmp.Compare(a.Function, b.Function), cmp.Compare(a.Line, b.Line))
	})
}

// add adds a sample.
func (l *leakCount) add(s *sample) {
	if s.Interpreter != tachyon.User {
		return
	}
	w := l.waiters.of(s)
	l.clock.cover(s.time)
	var at *leakStack
	site := uint32(notWaiting)
	if waits(s.Status) && !s.Unselected {
		at = l.stack(s.Stack)
		site = at.site
	}
	w.last = s.time
	if site == notKnown {
		return
	}
	begin := s.begin()
	if w.group != 0 && (site == notWaiting || at.plain != w.stack || s.Status&tachyon.Moved != 0) {
		l.groups[w.group-1].end(max(begin, w.begin) - w.begin)
		w.group = 0
	}
	if site == notWaiting {
		return
	}
	if w.group == 0 {
		w.group, w.stack, w.begin = l.group(s, at)+1, at.plain, begin
	}
	l.groups[w.group-1].alive.add(&l.clock, begin, s.time)
	l.slow(s.time, s.time-begin)
}

// slow notes the time between two samples of a waiting goroutine.
func (l *leakCount) slow(at, between uint64) {
	for l.slowest.double < l.clock.double { // the greatest of two bins, not their sum
		l.slowest.double++
		bins := l.slowest.bins
		for i := range (len(bins) + 1) / 2 {
			bins[i] = max(bins[2*i], bins[min(2*i+1, len(bins)-1)])
		}
		l.slowest.bins = bins[:(len(bins)+1)/2]
	}
	i := int(at / l.clock.width)
	for len(l.slowest.bins) <= i {
		l.slowest.bins = append(l.slowest.bins, 0)
	}
	l.slowest.bins[i] = max(l.slowest.bins[i], float64(between))
}

// stack returns what is known about the stack of a waiting goroutine. Its site is notWaiting if the stack says
// otherwise.
func (l *leakCount) stack(stack uint32) *leakStack {
	if int(stack) >= len(l.stacks) {
		l.stacks = append(l.stacks, make([]leakStack, l.Samples.stacks()-len(l.stacks))...)
		l.stacks[0].site = notWaiting
	}
	x := &l.stacks[stack]
	if x.site != notKnown {
		return x
	}
	leaf := l.leaf(stack)
	x.plain = stack
	switch {
	case isGap(leaf):
		return x
	case leaf.Func == tachyon.FuncRunnable, leaf.Func == tachyon.FuncNotStarted:
		x.site = notWaiting
		return x
	}
	site := waitSite{reason: reason(leaf)}
	if f := l.own(stack); f != nil {
		site.function, site.file, site.line = f.Func, f.File, int(f.Line)
	}
	n, ok := l.siteOf[site]
	if !ok {
		n = uint32(len(l.sites))
		l.siteOf[site] = n
		l.sites = append(l.sites, site)
		what := ""
		if p := l.idle.stack(stack).place; p != nil {
			what = p.what
		}
		l.waitFor = append(l.waitFor, what)
	}
	x.site = n
	if site.reason != "" {
		key := stackSite{leaf.Func, l.caller(stack)}
		if first, ok := l.plain[key]; ok {
			x.plain = first
		} else {
			l.plain[key] = stack
		}
	}
	return x
}

// group returns the number of the group of a goroutine that comes to wait at a stack.
func (l *leakCount) group(s *sample, at *leakStack) int32 {
	if at.group == 0 || at.creator != s.Creator {
		at.creator, at.group = s.Creator, l.find(leakKey{s.Creator, at.site})+1
	}
	return at.group - 1
}

// find returns the number of a group.
func (l *leakCount) find(key leakKey) int32 {
	n, ok := l.number[key]
	switch {
	case ok:
		return n
	case len(l.groups) < maxGroups:
	case l.other != 0:
		return l.other
	default:
		key = leakKey{site: otherSites}
		l.other = int32(len(l.groups))
	}
	n = int32(len(l.groups))
	l.number[key] = n
	l.groups = append(l.groups, &leakGroup{leakKey: key})
	return n
}

// end counts a wait that ended, given its length in µs.
func (g *leakGroup) end(length uint64) { g.ended[bits.Len64(length/1000)]++ }

// survivors finds the waits that last at the end of the profile. The others whose goroutines have no
// more samples have ended.
func (l *leakCount) survivors() {
	slack := max(20_000, 10*l.interval())
	for i, between := range slices.Backward(l.slowest.bins) {
		if uint64(i+1)*l.clock.width+l.end/8 < l.end {
			break
		}
		slack = max(slack, uint64(1.5*between))
	}
	for w := range l.waiters.all() {
		if w.group == 0 {
			continue
		}
		g := l.groups[w.group-1]
		if l.end-min(l.end, w.last) > slack {
			g.end(w.last - w.begin)
			continue
		}
		g.alive.add(&l.clock, w.last, l.end)
		g.stuck.add(&l.clock, w.begin, l.end)
		g.list = append(g.list, l.end-min(l.end, w.begin))
	}
}

// row returns what is known about a group, and whether it grows.
func (l *leakCount) row(g *leakGroup) (LeakGroup, bool) {
	alive := g.alive.average(&l.clock, l.end)
	n := len(alive)
	if l.src.Creators()[g.creator].Func == backgroundRead {
		return LeakGroup{}, false // it ends with the handler, whose goroutine has a group too
	}
	if n < 8 || len(g.list) < 2 || sum(alive[n-n/4:])-sum(alive[:n/4]) < float64(n/4) {
		return LeakGroup{}, false
	}
	perMinute := float64(time.Minute/time.Microsecond) / float64(l.clock.width)
	slope, low := theilSen(alive)
	if low <= 0 {
		return LeakGroup{}, false
	}
	row := l.describe(g, alive)
	row.PerMinute, row.Low = slope*perMinute, low*perMinute
	_, stuck := theilSen(g.stuck.average(&l.clock, l.end))
	row.Suspect = stuck > 0 && row.Stuck >= minStuck && 10*row.Unstuck <= row.Stuck
	return row, true
}

// describe returns what is known about a group whether it grows or not.
func (l *leakCount) describe(g *leakGroup, alive []float64) LeakGroup {
	by, site := l.src.Creators()[g.creator], l.sites[g.site]
	row := LeakGroup{
		CreatedBy: by.Func, CreatedAt: by.At,
		Reason: site.reason, For: l.waitFor[g.site], Function: site.function, File: site.file, Line: site.line, End: len(g.list),
	}
	if len(alive) > 0 {
		row.Start = int(math.Round(alive[0]))
	}
	long := l.end / 8
	for _, length := range g.list {
		row.Oldest = max(row.Oldest, time.Duration(length)*time.Microsecond)
		if length >= long {
			row.Stuck++
		}
	}
	for i, count := range g.ended {
		row.RanAgain += int(count)
		if i >= bits.Len64(long/1000) {
			row.Unstuck += int(count)
		}
	}
	for _, n := range alive {
		row.Alive = append(row.Alive, math.Round(100*n)/100)
	}
	return row
}

func sum(list []float64) (s float64) {
	for _, v := range list {
		s += v
	}
	return s
}
