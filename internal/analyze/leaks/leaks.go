// Package leaks finds the groups of waiting goroutines that grow. Command, page and top call
// [Find], and a survey adds samples to a [Count].
//
// # Files
//
//   - processes.go: the leaks of several processes
//   - leaks.go: counts waiting goroutines, group by group, and says which groups grow
//   - proven.go: what the runtime has proved
//   - group.go: what is said of a group
//   - series.go: amounts over time, and whether they grow
package leaks

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/tachyon"
)

// Leaks are the groups of waiting goroutines that grow. A group is the goroutines that were created
// at one place and wait at one place. Its growth is the Theil-Sen slope of the number of goroutines
// that wait there.
type Leaks struct {
	Duration   time.Duration `json:"duration_ns"`
	Goroutines int           `json:"goroutines"` // all that have samples
	Groups     []Group       `json:"groups"`     // proven ones first, then suspects, then by growth
	// Proven is the number of goroutines that the runtime proved to be leaked when the session was
	// stopped. ProvenUnknown says why it could not. Asked is false if it was not asked.
	Asked         bool   `json:"asked"`
	Proven        int    `json:"proven"`
	ProvenUnknown string `json:"proven_unknown,omitempty"`
}

const (
	// minStuck is the number of stuck waits below which chance may be the reason.
	minStuck = 5
	// minStays is the number of goroutines that come back at every tick below which they may be as
	// many as the program needs. tickShare is the least part of their waits that are about as long.
	minStays, tickShare = 20, 0.9
	// lookShare: one of so many long waits has a sample at the end if there was a look at all.
	lookShare = 10
	// restFirst is the age in µs at which a wait has a second sample at the latest, see
	// native.recordDue. The next ones come when the age doubles.
	restFirst = 67_000
	// shutdown is the time in µs at the end of a session, at most one of shutdownPart of it, in
	// which waits end because the program does: of these goroutines it is not known that somebody
	// would have woken them. maxLate bounds the memory that they take.
	shutdown, shutdownPart, maxLate = 500_000, 16, 1 << 18
	// maxGroups bounds the memory that groups take, a KB each.
	maxGroups = 20_000
)

// timed are the reasons of waits that a clock can end.
var timed = map[string]bool{"select": true, "chan receive": true, "sleep": true}

// A waitSite is where a goroutine waits.
type waitSite struct {
	reason, function, file string
	line                   int
}

// A leakKey is what the goroutines of a group have in common.
type leakKey struct {
	creator uint32
	site    uint32 // index into Count.sites
}

// A leakGroup is the state of a group.
type leakGroup struct {
	leakKey
	alive series
	stuck series     // from the beginning of the waits that have not ended
	ended [65]uint32 // waits that ended, by the number of bits of their length in ms
	stays series     // from the time at which the present goroutines came, if they waited nowhere else since
	ages  []uint64   // how long ago that was, µs
	left  [65]uint32 // goroutines that ended or waited elsewhere, by the number of bits of how long they stayed, in ms
	list  []uint64   // lengths of the present waits, µs
	late  []lateWait
	cut   int // of those that are in list, the ones that were in late
}

// A lateWait is a wait that ended while the program did. Times are in µs.
type lateWait struct{ begin, end uint64 }

// A waiter is the state of a goroutine.
type waiter struct {
	group int32 // in which it waits, plus 1; 0: it does not wait
	stack uint32
	begin uint64 // of the wait, µs
	last  uint64 // time of the latest sample, µs
	home  int32  // group of the latest wait, plus 1; 0: none yet
	came  uint64 // begin of the first of the latest waits in a row that were in that group, µs
}

// A leakStack is what is known about a stack.
type leakStack struct {
	site  uint32 // index into Count.sites; 0: nothing yet
	plain uint32 // the first stack that is equal apart from the object that the goroutine waits for

	creator uint32 // of the goroutine that came to wait there last
	group   int32  // of that goroutine + 1; 0: none came
}

// A Count counts goroutines.
type Count struct {
	*analyze.Samples
	clock   clock
	slowest series // the greatest time between two samples of a waiting goroutine, by bin, µs
	groups  []*leakGroup
	number  map[leakKey]int32
	stacks  []leakStack // by stack
	sites   []waitSite
	siteOf  map[waitSite]uint32
	waitFor []string // by site: as Group.For
	idle    *idle.Idle
	waiters analyze.States[waiter]
	other   int32  // number of the group of what is beyond maxGroups
	stops   uint64 // from then on the program ends, µs; MaxUint64: unknown
	late    int    // number of all that are late
}

// The numbers of sites that are none.
const (
	notKnown   = 0 // nothing is known about the time
	notWaiting = 1
	otherSites = 2 // of the group of what is beyond maxGroups
)

// Find finds groups of goroutines that grow. The samples must have creators (stream.Options).
func Find(s *analyze.Samples) (*Leaks, error) {
	if !s.Source.KnowsCreators() {
		return nil, analyze.ErrNoCreators
	}
	if l, err := leaksOfProcesses(s); l != nil || err != nil {
		return l, err
	}
	return findLeaks(s)
}

// findLeaks is Find for one process.
func findLeaks(s *analyze.Samples) (*Leaks, error) {
	l := NewCount(s, idle.New(s.Source, nil))
	for s, err := range s.All() {
		if err != nil {
			return nil, err
		}
		l.Add(s)
	}
	return l.Result(), nil
}

// NewCount returns a count to which no samples were added. It asks idle about places, and adds no
// samples to it.
func NewCount(s *analyze.Samples, idles *idle.Idle) *Count {
	stops := uint64(math.MaxUint64)
	if m := s.Source.Metadata().Session; m != nil && m.Duration > 0 && s.Source.Limit() == math.MaxUint64 {
		length := uint64(m.Duration.Microseconds())
		stops = length - min(shutdown, length/shutdownPart)
	}
	return &Count{
		Samples: s, stops: stops, clock: clock{width: max(s.Interval(), 1000)}, number: map[leakKey]int32{},
		waiters: analyze.NewStates(s.Source, func(w *waiter) bool { return w.home != 0 }),
		sites:   []waitSite{{}, {}, {reason: "other"}}, siteOf: map[waitSite]uint32{}, waitFor: make([]string, 3), idle: idles,
	}
}

// Result returns the groups, after all samples were added.
func (l *Count) Result() *Leaks {
	out := &Leaks{Groups: []Group{}}
	l.clock.cover(l.End)
	l.survivors()
	out.Goroutines = l.Source.Goroutines()
	out.Duration = time.Duration(l.End) * time.Microsecond
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
	slices.SortStableFunc(l.Groups, func(a, b Group) int {
		return cmp.Or(analyze.First(a.Proven > 0, b.Proven > 0), analyze.First(a.Suspect, b.Suspect), cmp.Compare(b.PerMinute, a.PerMinute), cmp.Compare(b.Proven, a.Proven), cmp.Compare(b.End, a.End), cmp.Compare(a.Function, b.Function), cmp.Compare(a.Line, b.Line))
	})
}

// Add adds a sample.
func (l *Count) Add(s *analyze.Sample) {
	if s.Interpreter != tachyon.User {
		return
	}
	w := l.waiters.Of(s)
	l.clock.cover(s.At)
	var at *leakStack
	site := uint32(notWaiting)
	if analyze.Waits(s.Status) && !s.Unselected {
		at = l.stack(s.Stack)
		site = at.site
	}
	w.last = s.At
	if site == notKnown {
		return
	}
	begin := s.Begin()
	if w.group != 0 && (site == notWaiting || at.plain != w.stack || s.Status&tachyon.Moved != 0) {
		l.end(l.groups[w.group-1], w.begin, max(begin, w.begin))
		w.group = 0
	}
	if site == notWaiting {
		return
	}
	if w.group == 0 {
		w.group, w.stack, w.begin = l.group(s, at)+1, at.plain, begin
		if w.home != w.group {
			l.leave(w, begin)
			w.home, w.came = w.group, begin
		}
	}
	l.groups[w.group-1].alive.add(&l.clock, begin, s.At)
	l.slow(s.At, s.At-begin)
}

// slow notes the time between two samples of a waiting goroutine.
func (l *Count) slow(at, between uint64) {
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

// stack returns what is known about the stack of a waiting goroutine. Its site is notWaiting if the
// stack says otherwise.
func (l *Count) stack(stack uint32) *leakStack {
	if int(stack) >= len(l.stacks) {
		l.stacks = append(l.stacks, make([]leakStack, l.Samples.Stacks()-len(l.stacks))...)
		l.stacks[0].site = notWaiting
	}
	x := &l.stacks[stack]
	if x.site != notKnown {
		return x
	}
	leaf := l.Leaf(stack)
	switch {
	case analyze.IsGap(leaf):
		return x
	case leaf.Func == tachyon.FuncRunnable, leaf.Func == tachyon.FuncNotStarted:
		x.site = notWaiting
		return x
	}
	site := waitSite{reason: analyze.Reason(leaf)}
	if f := l.ProgramFrame(stack); f != nil {
		site.function, site.file, site.line = f.Func, f.File, int(f.Line)
	}
	n, ok := l.siteOf[site]
	if !ok {
		n = uint32(len(l.sites))
		l.siteOf[site] = n
		l.sites = append(l.sites, site)
		l.waitFor = append(l.waitFor, l.idle.Place(stack))
	}
	x.site = n
	x.plain = l.idle.Site(stack)
	return x
}

// group returns the number of the group of a goroutine that comes to wait at a stack.
func (l *Count) group(s *analyze.Sample, at *leakStack) int32 {
	if at.group == 0 || at.creator != s.Creator {
		at.creator, at.group = s.Creator, l.find(leakKey{s.Creator, at.site})+1
	}
	return at.group - 1
}

// find returns the number of a group.
func (l *Count) find(key leakKey) int32 {
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

// end counts a wait that ended, or keeps it for settle.
func (l *Count) end(g *leakGroup, begin, end uint64) {
	if end < l.stops || l.late >= maxLate {
		g.end(end - begin)
		return
	}
	g.late = append(g.late, lateWait{begin, end})
	l.late++
}

// end counts a wait that ended, given its length in µs.
func (g *leakGroup) end(length uint64) { g.ended[bits.Len64(length/1000)]++ }

// leave notes that a goroutine does not come back to the group in which it waited.
func (l *Count) leave(w *waiter, at uint64) {
	if w.home != 0 {
		l.groups[w.home-1].left[bits.Len64((max(at, w.came)-w.came)/1000)]++
	}
}

// survivors finds the waits that last at the end of the profile. The others whose goroutines have
// no more samples have ended.
func (l *Count) survivors() {
	short := max(20_000, 10*l.Interval())
	slack := short
	for i, between := range slices.Backward(l.slowest.bins) {
		if uint64(i+1)*l.clock.width+l.End/8 < l.End {
			break
		}
		slack = max(slack, uint64(1.5*between))
	}
	if l.lastLook(short, slack) {
		slack = short
	}
	for w := range l.waiters.All() {
		if w.group == 0 {
			if l.End-min(l.End, w.last) > short {
				l.leave(w, w.last)
			}
			continue
		}
		g := l.groups[w.group-1]
		if l.End-min(l.End, w.last) > min(slack, short+max(restFirst, 3*(w.last-w.begin)/2)) {
			l.end(g, w.begin, w.last)
			l.leave(w, w.last)
			continue
		}
		g.stays.add(&l.clock, w.came, l.End)
		g.ages = append(g.ages, l.End-min(l.End, w.came))
		g.alive.add(&l.clock, w.last, l.End)
		g.stuck.add(&l.clock, w.begin, l.End)
		g.list = append(g.list, l.End-min(l.End, w.begin))
	}
	for _, g := range l.groups {
		l.settle(g)
	}
}

// settle says of the waits of a group that ended while the program did whether they would have
// lasted: so it is if there are long ones among them, and hardly any as long had ended before.
func (l *Count) settle(g *leakGroup) {
	stuck, ended := 0, 0
	for _, x := range g.late {
		stuck += analyze.Int(x.end-x.begin >= l.End/8)
	}
	for i, n := range g.ended {
		if i >= bits.Len64(l.End/8/1000) {
			ended += int(n)
		}
	}
	lasts := stuck >= minStuck && 10*ended <= stuck
	for _, x := range g.late {
		if !lasts {
			g.end(x.end - x.begin)
			continue
		}
		g.stuck.add(&l.clock, x.begin, l.End)
		g.list = append(g.list, x.end-x.begin)
		g.cut++
	}
	g.late = nil
}

// lastLook reports whether the session ended with a look at all goroutines, so that each that lives
// has a sample at the end. The sources do so since goroutines that rest have one only as often as
// their age doubles. Then those of the long waits have one that is at most short before the end
// that have not ended; else hardly any has.
func (l *Count) lastLook(short, slack uint64) bool {
	long, atEnd := 0, 0
	for w := range l.waiters.All() {
		if w.group == 0 || w.last-w.begin < min(slack, l.End/2) || l.End-min(l.End, w.last) > slack {
			continue
		}
		long++
		if l.End-min(l.End, w.last) <= short {
			atEnd++
		}
	}
	return long > 0 && lookShare*atEnd >= long
}

// row returns what is known about a group, and whether it grows.
func (l *Count) row(g *leakGroup) (Group, bool) {
	alive := g.alive.average(&l.clock, l.End)
	n := len(alive)
	if l.Source.Creators()[g.creator].Func == analyze.BackgroundRead {
		return Group{}, false // it ends with the handler, whose goroutine has a group too
	}
	if n < 8 || len(g.list) < 2 || analyze.Sum(alive[n-n/4:])-analyze.Sum(alive[:n/4]) < float64(n/4) {
		return Group{}, false
	}
	perMinute := float64(time.Minute/time.Microsecond) / float64(l.clock.width)
	slope, low := theilSen(alive)
	if low <= 0 {
		return Group{}, false
	}
	row := l.describe(g, alive)
	row.PerMinute, row.Low = slope*perMinute, low*perMinute
	_, stuck := theilSen(g.stuck.average(&l.clock, l.End))
	row.Suspect = stuck > 0 && row.Stuck >= minStuck && 10*row.Unstuck <= row.Stuck
	if !row.Suspect && timed[row.Reason] && g.ticks() {
		_, stays := theilSen(g.stays.average(&l.clock, l.End))
		row.Suspect = stays > 0 && row.Stays >= minStays && 10*row.Left <= row.Stays
	}
	return row, true
}

// Ticks reports whether the goroutines of a suspect wake up and wait again.
func (g *Group) Ticks() bool { return g.Suspect && (g.Stuck < minStuck || 10*g.Unstuck > g.Stuck) }

// ticks reports whether a clock seems to end the waits of a group: nearly all that ended were about
// as long. Sampling may take up to eight in a row for one.
func (g *leakGroup) ticks() bool {
	all, same := uint32(0), uint32(0)
	for i, n := range g.ended {
		all += n
		for _, before := range g.ended[max(0, i-3):i] {
			n += before
		}
		same = max(same, n)
	}
	return float64(same) >= tickShare*float64(all)
}

// describe returns what is known about a group whether it grows or not.
func (l *Count) describe(g *leakGroup, alive []float64) Group {
	by, site := l.Source.Creators()[g.creator], l.sites[g.site]
	row := Group{
		CreatedBy: by.Func, CreatedAt: by.At,
		Reason: site.reason, For: l.waitFor[g.site], Function: site.function, File: site.file, Line: site.line, End: len(g.list), Cut: g.cut,
	}
	if len(alive) > 0 {
		row.Start = int(math.Round(alive[0]))
	}
	long := l.End / 8
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
			row.Left += int(g.left[i])
		}
	}
	for _, age := range g.ages {
		if age >= long {
			row.Stays++
		}
	}
	for _, n := range alive {
		row.Alive = append(row.Alive, math.Round(100*n)/100)
	}
	return row
}
