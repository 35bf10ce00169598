package locks

import (
	"math"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/tachyon"
)

// The number of waits for a lock. Samples tell waits apart that are longer than a few ticks. Of
// shorter ones they show the time and miss most. But the profile has how often each goroutine
// stopped running. If all short waits of some goroutines are for one lock, the stops that are no
// long waits are the waits for it. Goroutines of one go statement are taken together, so that there
// are enough samples to show where else they wait.
//
// Not all other stops are waits. A goroutine may be preempted. And if goroutines have waited for a
// Mutex for more than a millisecond, each Unlock hands it over to the next one and yields to that.
// Of both only the most is known. Where it is much, the number is a lower limit.

// A waitCount counts the waits of all goroutines.
type waitCount struct {
	current analyze.States[countedWait]
	groups  []*stopGroup            // by creator
	stops   map[uint64]countedStops // by goroutine that has had no sample yet
	known   bool                    // the profile has stops
}

// countedStops says how often a goroutine stopped: n times. more of these are from seconds in which
// it may have stopped more often.
type countedStops struct{ n, more uint64 }

// A countedWait is the wait that a goroutine is in.
type countedWait struct {
	place   uint32 // number of its site, or inStacks + the stack; 0: none
	samples uint32
	time    uint64 // µs
}

// inStacks is added to a stack for a place that is no site of an object.
const inStacks = 1 << 31

// A stopGroup is the goroutines of one go statement. Times are in µs.
type stopGroup struct {
	stops     uint64 // without long waits it is the number of short ones
	more      uint64 // see countedStops
	long      uint64 // waits that were told apart
	short     uint64 // time of the others
	running   uint64
	total     uint64
	uncounted uint64 // time before goroutines' first samples
	sites     map[uint32]*siteWaits
}

// siteWaits are the waits of a group at a site.
type siteWaits struct {
	seen, long  uint64
	short, time uint64 // of short waits and of all, µs
}

const (
	// toldApart is the number of samples from which on a wait counts as one, and not as several
	// short ones that follow each other.
	toldApart = 4

	// mostElsewhere is the share of the short waits' time that may be at other places. The waits
	// there may be shorter, so their share of the stops may be larger.
	mostElsewhere = 0.01

	// mostUnsure is the share of stops, or of the time of waits, that may be unknown in a number
	// that is printed without "at least".
	mostUnsure = 0.04

	// mostMore is the share of stops in seconds in which there may have been more, up to which a
	// number is exact. A second has many visits, and stops may be missing between few of them.
	mostMore = 0.1

	slice  = 10 * time.Millisecond // a goroutine that runs for so long may be preempted
	starve = time.Millisecond      // a Mutex for which a goroutine has waited for so long is handed over, see sync.Mutex
)

// newWaitCount reads how often goroutines stopped running.
func newWaitCount(s *analyze.Samples) (*waitCount, error) {
	src := s.Source
	c := &waitCount{
		current: analyze.NewStates(src, func(w *countedWait) bool { return w.place != 0 }),
		stops:   map[uint64]countedStops{},
	}
	if !src.Whole() || !src.CountsStops() {
		return c, nil
	}
	for x, err := range src.Stops() {
		if err != nil {
			return nil, err
		}
		for _, g := range x.List {
			sum, ok := c.stops[g.Goroutine]
			if !ok && len(c.stops) == maxLockGoroutines {
				clear(c.stops)
				c.known = false
				return c, nil
			}
			sum.n += g.N
			if g.AtLeast {
				sum.more += g.N
			}
			c.stops[g.Goroutine] = sum
			c.known = true
		}
	}
	return c, nil
}

// add adds a sample. site is the number of the site at which its goroutine waits for an object, 0
// if it does not.
func (c *waitCount) add(s *analyze.Sample, site uint32) {
	g := c.group(s.Creator)
	length := s.At - s.Begin()
	g.total += length
	if s.First {
		g.uncounted += length
		if x, ok := c.stops[s.Goroutine]; ok {
			delete(c.stops, s.Goroutine)
			g.stops += x.n
			g.more += x.more
		}
	}
	w := c.current.Of(s)
	if !analyze.Waits(s.Status) {
		w.place = 0
		if s.Status&(tachyon.HasGIL|tachyon.OnCPU) != 0 {
			g.running += length
		}
		return
	}
	place := site
	if site == 0 {
		place = inStacks | s.Stack
	}
	var at *siteWaits
	if site != 0 {
		if at = g.sites[site]; at == nil {
			at = &siteWaits{}
			g.sites[site] = at
		}
	}
	if w.place != place || s.Status&tachyon.Moved != 0 {
		*w = countedWait{place: place}
		if at != nil {
			at.seen++
		}
	}
	w.samples++
	w.time += length
	if at != nil {
		at.time += length
	}
	switch {
	case w.samples < toldApart:
		g.short += length
		if at != nil {
			at.short += length
		}
	case w.samples == toldApart:
		before := w.time - length
		g.long++
		g.short -= before
		if at != nil {
			at.long++
			at.short -= before
		}
	}
}

// move adds the waits at one site to those at another.
func (c *waitCount) move(from, to uint32) {
	for _, g := range c.groups {
		if g == nil || g.sites[from] == nil {
			continue
		}
		at, x := g.sites[to], g.sites[from]
		if at == nil {
			at = &siteWaits{}
			g.sites[to] = at
		}
		at.seen, at.long, at.time, at.short = at.seen+x.seen, at.long+x.long, at.time+x.time, at.short+x.short
		delete(g.sites, from)
	}
}

// group returns the goroutines of a go statement.
func (c *waitCount) group(creator uint32) *stopGroup {
	for int(creator) >= len(c.groups) {
		c.groups = append(c.groups, nil)
	}
	g := c.groups[creator]
	if g == nil {
		g = &stopGroup{sites: map[uint32]*siteWaits{}}
		c.groups[creator] = g
	}
	return g
}

// count sets the numbers of waits of an object and its sites.
func (c *waitCount) count(o *objectSums) {
	var unsure, all float64 // time of short waits of which more are possible, and of all waits, µs
	waits := make([]float64, len(o.sites))
	for _, g := range c.groups {
		if g == nil {
			continue
		}
		here := uint64(0)
		for _, site := range o.sites {
			if at := g.sites[site.number]; at != nil {
				here += at.short
			}
		}
		short, exact := 0.0, false
		if c.known && here > 0 {
			short, exact = g.shortWaits(here, analyze.IsLock(o.kind))
		}
		if !exact {
			unsure += float64(here)
		}
		for i, site := range o.sites {
			if at := g.sites[site.number]; at != nil {
				all += float64(at.time)
				waits[i] += max(float64(at.seen), float64(at.long)+short*float64(at.short)/float64(max(here, 1)))
			}
		}
	}
	o.waits = 0
	for i, site := range o.sites {
		site.waits = int(math.Round(waits[i]))
		o.waits += site.waits
	}
	o.atLeast = unsure > mostUnsure*all
}

// shortWaits returns how many short waits the group had for an object, of the time here, and
// whether that is exact. Otherwise it is a lower limit, which is 0 if nothing is known.
func (g *stopGroup) shortWaits(here uint64, lock bool) (n float64, exact bool) {
	if float64(g.short-here) > mostElsewhere*float64(g.short) {
		return 0, false
	}
	n = float64(g.stops-min(g.stops, g.long)) * float64(here) / float64(g.short)
	others := float64(g.running) / float64(slice.Microseconds())
	if lock { // an RWMutex has a Mutex for its writers
		// At most so many waits were that long. After each of them there may be a second wait that
		// was not, for which the Mutex is still handed over.
		others += min(n/2, 2*float64(here)/float64(starve.Microseconds()))
	}
	exact = others <= mostUnsure*n && float64(g.more) <= mostMore*float64(g.stops) && float64(g.uncounted) <= mostUnsure*float64(g.total)
	if !exact {
		n = max(0, n-others)
	}
	return n, exact
}
