package requests

import (
	"cmp"
	"slices"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/stream"
)

// A life is the time of a goroutine that reads in the background, and so of one request, in µs
// since the start of the profile.
type life struct {
	parent uint64 // id in the file of the connection's goroutine
	from   uint64 // its first sample stands for the time since
	first  uint64 // time of the first tick that found it
	last   uint64 // of its last sample

	// When the handler has returned, the goroutine's read is stopped. On a busy machine it takes a
	// while until it runs and ends. It was woken between these two times; 0: unknown.
	waited, woken uint64

	gone uint64 // time of the first tick that did not find it; 0: unknown
}

// lives are those of all these goroutines.
type lives struct {
	*analyze.Samples
	all []life

	// Of the present file.
	file    int              // its number + 1
	number  map[uint64]int32 // index into all, by id
	ordered []int32          // by parent, then by time
	rare    bool             // see isRare
	soon    uint64           // see isSoon
	ticks   tickList

	births births

	samples, alive int // samples of requests that have such a goroutine, and those while it lived
}

// load reads the lives of the file that a sample is in.
func (l *lives) load(s *analyze.Sample) error {
	before := l.number
	l.setGone()
	l.births.load()
	l.file, l.number, l.ordered = s.File+1, map[uint64]int32{}, nil
	_, f := l.Source.File()
	h := f.Stream.Header()
	l.rare, l.soon = l.isRare(), l.isSoon()
	since := func(t uint64) uint64 { return min(uint64(max(0, int64(h.Start+t-l.Start))), l.Until) }
	for g, err := range f.Stream.Goroutines() {
		if err != nil {
			return err
		}
		n, ok := l.number[g.ID]
		from, first := since(g.First-min(g.First, cmp.Or(g.FirstWeight, h.Interval))), since(g.First)
		if first < l.Until && !l.Source.Selects() {
			l.births.add(g, from, first, since(g.Last))
		}
		if !ok {
			if g.CreatedBy != analyze.BackgroundRead {
				continue
			}
			if n, ok = before[g.ID]; !ok || l.all[n].parent != g.Parent || l.all[n].last+2*h.Interval < from {
				n = int32(len(l.all))
				l.all = append(l.all, life{parent: g.Parent, from: from, first: first, last: first})
			}
			l.number[g.ID] = n
			l.ordered = append(l.ordered, n)
		} // else it is a further part
		l.all[n].last = max(l.all[n].last, since(g.Last))
	}
	l.births.loaded()
	slices.SortFunc(l.ordered, func(a, b int32) int {
		x, y := &l.all[a], &l.all[b]
		return cmp.Or(cmp.Compare(x.parent, y.parent), cmp.Compare(x.first, y.first))
	})
	var times []uint64
	for _, n := range l.ordered {
		times = append(times, l.all[n].from, l.all[n].last)
	}
	l.ticks = newTickList(times)
	return nil
}

// setGone sets when the ticks of the present file did not find its goroutines any more. If ticks
// look at some of the goroutines only, that is not known.
func (l *lives) setGone() {
	found := 0
	for _, n := range l.ordered {
		l.ticks.add(l.all[n].last)
	}
	for _, n := range l.ordered {
		if x := &l.all[n]; l.ticks.after(x.from) >= x.first {
			found++
		}
	}
	if 10*found < 9*len(l.ordered) {
		return
	}
	for _, n := range l.ordered {
		l.all[n].gone = l.ticks.after(l.all[n].last)
	}
}

// isRare reports whether ticks are so rare that the first sample of a goroutine is an additional
// one, at the beginning of the time for which it stands. The second one is that of the tick that
// found the goroutine.
func (l *lives) isRare() bool {
	m := l.Source.Metadata().Session
	return m != nil && m.TicksReached > 0 && 2*m.TicksAsked >= 3*m.TicksReached
}

// isSoon returns how soon a tick finds that a goroutine that ran now waits, in µs; 0: that is not
// known, because ticks are rare, find not all of them, or were late while the program did not run.
func (l *lives) isSoon() uint64 {
	m := l.Source.Metadata().Session
	if m == nil || m.TicksReached == 0 || m.Throttled > 0 {
		return 0
	}
	every := uint64(m.Duration.Microseconds() / m.TicksReached)
	if every > turns {
		return 0
	}
	return 4 * every
}

// turns is the time between two ticks from which on goroutines are visited in turns, in µs.
const turns = 4000

// begun returns when a goroutine at the latest began to do what it does in a sample. The sample of
// a long wait may be that of its end: the tick that has found its begin has none if CPU time that
// the goroutine is owed takes its place.
func (l *lives) begun(s *analyze.Sample) uint64 {
	if l.soon == 0 || !analyze.Waits(s.Status) {
		return s.At
	}
	return min(s.At, s.Begin()+l.soon)
}

// exact reports whether the goroutines live as long as the handlers run. If a request has a body,
// its goroutine does not begin before the body is read.
func (l *lives) exact() bool { return l.samples > 0 && float64(l.alive) >= 0.9*float64(l.samples) }

// request returns the life as a request.
func (x *life) request() request {
	if x.woken != 0 {
		last := max(x.first, min(x.last, x.waited))
		return request{before: x.from, first: x.first, last: last, after: max(last, x.woken), goroutine: x.parent}
	}
	return request{before: x.from, first: x.first, last: x.last, after: cmp.Or(x.gone, x.last+x.first-x.from), goroutine: x.parent}
}

// A connection says which requests a goroutine serves.
type connection struct {
	file  int     // number of the file + 1
	lives []int32 // index into lives.all
	at    int
	own   int32  // if the goroutine itself reads in the background: index into lives.all + 1
	fresh bool   // it has a first sample, but no second one
	wait  uint64 // time of the latest sample if it waited; 0: it did not, or that was no tick
}

// sample notes a sample of the goroutine. It returns whether it is that of the tick that found the
// goroutine, after an additional one.
func (c *connection) sample(l *lives, s *analyze.Sample) (second bool, err error) {
	if l.file != s.File+1 {
		if err := l.load(s); err != nil {
			return false, err
		}
	}
	if c.file != s.File+1 {
		id := stream.GoroutineInFile(s.Goroutine)
		from, _ := slices.BinarySearchFunc(l.ordered, id, func(n int32, id uint64) int { return cmp.Compare(l.all[n].parent, id) })
		to := from
		for to < len(l.ordered) && l.all[l.ordered[to]].parent == id {
			to++
		}
		c.file, c.lives, c.at = s.File+1, l.ordered[from:to], 0
		c.fresh = s.First && l.rare && s.At-s.Begin() <= l.Interval()
		if n, ok := l.number[id]; ok {
			c.own = n + 1
		}
		return false, nil
	}
	if c.own != 0 {
		l.all[c.own-1].note(l, s)
	}
	second, c.fresh = c.fresh, false
	if second && c.own != 0 {
		l.all[c.own-1].first = s.At
	}
	// A sample of a wait, just before one in which the goroutine runs, may be at the time when it
	// began to run.
	if c.wait != 0 && analyze.Waits(s.Status) {
		l.ticks.add(c.wait)
	}
	if c.wait = 0; analyze.Waits(s.Status) {
		c.wait = s.At
	} else {
		l.ticks.add(s.At)
	}
	return second, nil
}

// note notes a sample of the goroutine.
func (x *life) note(l *lives, s *analyze.Sample) {
	if analyze.Waits(s.Status) {
		x.waited = s.At
	} else if f := l.Function(s.Stack); x.woken == 0 && x.waited != 0 && f != nil && f.Func == "internal/poll.runtime_pollWait" {
		x.woken = s.At
	}
}

// request returns the number of the request that the goroutine of a sample serves, if it serves
// one. It returns 0 if it is unknown. in says that it served one in its previous sample. Times must
// not go back.
func (c *connection) request(l *lives, s *analyze.Sample, in bool) int32 {
	if len(c.lives) == 0 {
		return 0
	}
	for ; c.at+1 < len(c.lives); c.at++ {
		x, next := &l.all[c.lives[c.at]], &l.all[c.lives[c.at+1]]
		// Between the two it is the end of the one before, or the goroutine reads the body of the
		// next one.
		if s.At <= min(x.last, next.first-1) || in && s.At < next.from {
			break
		}
	}
	return c.lives[c.at] + 1
}

// A tickList knows the first tick after each of some times.
type tickList struct {
	times []uint64 // ascending
	next  []uint64 // 0: unknown
	last  uint64   // the latest tick that was added
}

func newTickList(times []uint64) tickList {
	slices.Sort(times)
	times = slices.Clip(slices.Compact(times))
	return tickList{times: times, next: make([]uint64, len(times))}
}

// add adds a tick.
func (l *tickList) add(t uint64) {
	if t == l.last {
		return
	}
	l.last = t
	n, _ := slices.BinarySearch(l.times, t) // those before n are before t
	if n > 0 && (l.next[n-1] == 0 || t < l.next[n-1]) {
		l.next[n-1] = t
	}
}

// after returns the first tick after one of the times, or 0.
func (l *tickList) after(t uint64) uint64 {
	n, ok := slices.BinarySearch(l.times, t)
	if !ok {
		return 0
	}
	return l.next[n]
}
