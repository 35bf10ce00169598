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
	Groups     []LeakGroup   `json:"groups"`     // suspects first, then by growth
}

// A LeakGroup is a group that grows. It is a suspect if
//   - the number of goroutines that wait there grows, and the lower bound of its slope is above 0,
//   - so does the number of waits that have not ended at the end of the profile, by the times at
//     which they began,
//   - waits that have lasted for an eighth of the profile do not end: there are at least
//     minStuck such waits, and at most a tenth as many that ended.
type LeakGroup struct {
	CreatedBy string        `json:"created_by"` // function; "" if unknown
	CreatedAt string        `json:"created_at"` // file:line
	Reason    string        `json:"reason"`     // such as "chan receive"
	Function  string        `json:"function"`   // innermost one of the program's own code
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
	Alive     []float64     `json:"alive"` // goroutines that wait there, for equal parts of the time
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

type leakKey struct {
	creation creation
	site     waitSite
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
	site  *waitSite // nil: nothing yet
	plain uint32    // the first stack that is equal apart from the object that the goroutine waits for
}

// A leakCount counts goroutines.
type leakCount struct {
	*Samples
	clock   clock
	slowest series // the greatest time between two samples of a waiting goroutine, by bin, µs
	groups  []*leakGroup
	number  map[leakKey]int32
	created *creations
	sites   []leakStack // by stack
	plain   map[stackSite]uint32
	waiters states[waiter]
	other   int32 // number of the group of what is beyond maxGroups
}

// notWaiting is the site of stacks that do not wait.
var notWaiting = &waitSite{}

// FindLeaks finds groups of goroutines that grow.
func FindLeaks(s *Samples) (*Leaks, error) {
	l := newLeakCount(s)
	for s, err := range s.all() {
		if err == nil {
			err = l.add(s)
		}
		if err != nil {
			return nil, err
		}
	}
	return l.result(), nil
}

func newLeakCount(s *Samples) *leakCount {
	return &leakCount{
		Samples: s, clock: clock{width: max(s.interval(), 1000)}, number: map[leakKey]int32{}, created: &creations{src: s.src},
		waiters: states[waiter]{keep: func(w *waiter) bool { return w.group != 0 }}, plain: map[stackSite]uint32{},
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
	slices.SortStableFunc(out.Groups, func(a, b LeakGroup) int {
		if a.Suspect != b.Suspect {
			if a.Suspect {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.PerMinute, a.PerMinute), cmp.Compare(b.End, a.End), cmp.Compare(a.Function, b.Function), cmp.Compare(a.Line, b.Line))
	})
	return out
}

// add adds a sample.
func (l *leakCount) add(s *sample) error {
	if s.Interpreter != tachyon.User {
		return nil
	}
	w := l.waiters.of(s)
	l.clock.cover(s.time)
	begin := s.begin()
	site := notWaiting
	if waits(s.Status) && !s.Unselected {
		site = l.site(s.Stack)
	}
	if site == nil { // nothing is known about this time
		w.last = s.time
		return nil
	}
	stack := uint32(0)
	if site != notWaiting {
		stack = l.sites[s.Stack].plain
	}
	if w.group != 0 && (site == notWaiting || stack != w.stack) {
		l.groups[w.group-1].end(max(begin, w.begin) - w.begin)
		w.group = 0
	}
	if site != notWaiting {
		if w.group == 0 {
			n, err := l.group(s, site)
			if err != nil {
				return err
			}
			w.group, w.stack, w.begin = n+1, stack, begin
		}
		l.groups[w.group-1].alive.add(&l.clock, begin, s.time)
		l.slow(s.time, s.time-begin)
	}
	w.last = s.time
	return nil
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

// site returns the site of a waiting goroutine's stack, notWaiting if the stack says otherwise, nil
// if nothing is known.
func (l *leakCount) site(stack uint32) *waitSite {
	if int(stack) >= len(l.sites) {
		l.sites = append(l.sites, make([]leakStack, l.stacks()-len(l.sites))...)
		l.sites[0].site = notWaiting
	}
	if site := l.sites[stack].site; site != nil {
		return site
	}
	leaf := l.leaf(stack)
	site := &waitSite{reason: reason(leaf)}
	switch {
	case isGap(leaf):
		return nil
	case leaf.Func == tachyon.FuncRunnable, leaf.Func == tachyon.FuncNotStarted:
		site = notWaiting
	default:
		if f := l.own(stack); f != nil {
			site.function, site.file, site.line = f.Func, f.File, int(f.Line)
		}
	}
	plain := stack
	if site.reason != "" {
		key := stackSite{leaf.Func, l.caller(stack)}
		if first, ok := l.plain[key]; ok {
			plain = first
		} else {
			l.plain[key] = stack
		}
	}
	l.sites[stack] = leakStack{site, plain}
	return site
}

// group returns the number of the group of a goroutine that waits at a site.
func (l *leakCount) group(s *sample, site *waitSite) (int32, error) {
	by, err := l.created.of(s)
	key := leakKey{by, *site}
	n, ok := l.number[key]
	if ok || err != nil {
		return n, err
	}
	if len(l.groups) >= maxGroups {
		if l.other == 0 {
			l.other = int32(len(l.groups))
			l.groups = append(l.groups, &leakGroup{leakKey: leakKey{site: waitSite{reason: "other"}}})
		}
		return l.other, nil
	}
	n = int32(len(l.groups))
	l.number[key] = n
	l.groups = append(l.groups, &leakGroup{leakKey: key})
	return n, nil
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
	if n < 8 || len(g.list) < 2 || sum(alive[n-n/4:])-sum(alive[:n/4]) < float64(n/4) {
		return LeakGroup{}, false
	}
	perMinute := float64(time.Minute/time.Microsecond) / float64(l.clock.width)
	slope, low := theilSen(alive)
	if low <= 0 {
		return LeakGroup{}, false
	}
	row := LeakGroup{
		CreatedBy: g.creation.by, CreatedAt: g.creation.at,
		Reason: g.site.reason, Function: g.site.function, File: g.site.file, Line: g.site.line,
		Start: int(math.Round(alive[0])), End: len(g.list), PerMinute: slope * perMinute, Low: low * perMinute,
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
	_, stuck := theilSen(g.stuck.average(&l.clock, l.end))
	row.Suspect = stuck > 0 && row.Stuck >= minStuck && 10*row.Unstuck <= row.Stuck
	return row, true
}

func sum(list []float64) (s float64) {
	for _, v := range list {
		s += v
	}
	return s
}
