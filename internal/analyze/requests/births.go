package requests

import (
	"cmp"
	"math"
	"slices"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// births count the goroutines that began. The runtime numbers goroutines in their order, so the
// greatest number says how many there were, with those that no tick found. It gives each P sixteen
// numbers at a time: the count is exact but for these.
type births struct {
	all   float64 // goroutines that began in the profile; 0: unknown
	born  int     // those that have a sample
	sites map[string]*birthSite
	seen  map[uint64]*birth // of the present file, by id

	joined [analyze.KindCount]bool // as mayJoin

	stops        float64 // of the goroutines of connections that served requests of HTTP/1; 0: unknown
	stopsAtLeast bool

	still bool // connections of HTTP/1 hardly ever ran between two requests that have samples
}

// A birthSite is a function that starts goroutines.
type birthSite struct {
	ids      map[uint64]bool // of connectionStart: its goroutines, as in Sample
	n        int             // goroutines that have a sample and began in the profile
	list     []*request      // the lives of the first of them
	requests [analyze.KindCount]int
}

// A birth is a goroutine of the present file. Times are as in request.
type birth struct {
	site              *birthSite
	from, first, last uint64
}

const (
	maxBirths = 4000 // lives of a site that are kept
	// A goroutine that has its first sample so soon after the first one of all was there before, in
	// µs.
	bornBefore = 20_000
	// A goroutine whose number is so much less than that of one with an earlier sample was there
	// before.
	lateNumbers = 64
	minBirths   = 10 // fewer goroutines do not say how many began
	// fewBirths is the part of the requests that samples tell from which on they may be as many,
	// although fewer goroutines began.
	fewBirths = 0.96
)

// load begins a file.
func (b *births) load() {
	if b.sites == nil {
		b.sites = map[string]*birthSite{connectionStart: {ids: map[uint64]bool{}}}
	}
	b.seen = map[uint64]*birth{}
}

// add adds a goroutine of the present file, with its first sample at first and its last one at
// last, since the start of the profile. The first one stands for the time since from. A goroutine
// may come again, with a later end.
func (b *births) add(g *tachyon.Goroutine, from, first, last uint64) {
	if x := b.seen[g.ID]; x != nil {
		x.last = max(x.last, last)
		return
	}
	site := b.sites[g.CreatedBy]
	if site == nil {
		site = &birthSite{}
		b.sites[g.CreatedBy] = site
	}
	b.seen[g.ID] = &birth{site, from, first, last}
}

// loaded must be called when all goroutines of the present file were added.
func (b *births) loaded() {
	type sighting struct{ id, first uint64 }
	var list []sighting
	begin := uint64(math.MaxUint64)
	for id, x := range b.seen {
		begin = min(begin, x.first)
		list = append(list, sighting{id, x.first})
	}
	// What has its first sample later began later, or is one of so many that they are visited in
	// turns. So the greatest number at the begin is that of some of the first that began.
	list = slices.DeleteFunc(list, func(x sighting) bool { return x.first <= begin+bornBefore })
	if len(list) < minBirths {
		return
	}
	slices.SortFunc(list, func(x, y sighting) int { return cmp.Or(cmp.Compare(x.first, y.first), cmp.Compare(x.id, y.id)) })
	early := max(3, len(list)/50)
	before, latest := uint64(0), uint64(0)
	for i, x := range list {
		if latest = max(latest, x.id); i < early {
			before = latest
		}
	}
	from, to := list[early-1].first, list[len(list)-1].first
	if latest <= before || to <= from {
		return
	}
	b.all += float64(latest-before) * float64(to-begin) / float64(to-from)
	latest = 0
	for _, at := range list {
		if latest = max(latest, at.id); at.id+lateNumbers < latest {
			continue // it was there before
		}
		x := b.seen[at.id]
		b.born++
		if x.site.n++; len(x.site.list) < maxBirths {
			r := &request{before: x.from, first: x.first, last: x.last}
			r.endsUnseen()
			x.site.list = append(x.site.list, r)
		}
	}
}

// serves notes that a goroutine of the present file serves one more request.
func (b *births) serves(goroutine uint64, kind uint8) {
	if x := b.seen[stream.GoroutineInFile(goroutine)]; x != nil {
		if x.site.requests[kind]++; x.site.ids != nil {
			x.site.ids[goroutine] = true
		}
	}
}

// readStops adds up how often the goroutines of connections stopped running.
func (b *births) readStops(src *stream.Source) error {
	site := b.sites[connectionStart]
	if site == nil || len(site.ids) == 0 || !src.CountsStops() || src.Limit() != math.MaxUint64 {
		return nil
	}
	for x, err := range src.Stops() {
		if err != nil {
			return err
		}
		for _, g := range x.List {
			if site.ids[g.Goroutine] {
				b.stops += float64(g.N)
				b.stopsAtLeast = b.stopsAtLeast || g.AtLeast
			}
		}
	}
	return nil
}

// estimate returns how many goroutines began there, and how many of them had lives too short to be
// counted that way.
func (x *birthSite) estimate() (all, short float64) {
	if x.n == 0 {
		return 0, 0
	}
	l := estimate(x.list)
	each := float64(x.n) / float64(len(x.list))
	for i, n := range l.count {
		if l.edges[i+1] < 0.8*float64(l.short) {
			short += n
		}
	}
	return l.all * each, short * each
}

// A birthCount is what births say of the requests of some kinds.
type birthCount struct {
	kinds [analyze.KindCount]bool // requests that have a goroutine each
	// unseen is the number of goroutines that have no sample, as far as estimates of sites that
	// serve no requests leave them. The others are those of such sites, which may have more of
	// them; short are the others of sites where some lives are short.
	unseen, others, short float64
	http                  bool    // requests of HTTP/1 have a goroutine each; how often connections stop tells of them too
	long                  bool    // hardly any of these is short: goroutines of others have no sample as often
	connections           float64 // new connections of HTTP/1 of which each has a goroutine too; 0: few
	fits                  float64 // if samples tell of more requests than began, by what they must be multiplied; else 1
}

// count returns what births say, given the number of requests of each kind as far as samples tell.
func (b *births) count(kinds [analyze.KindCount]float64, seen [analyze.KindCount]int) (c birthCount) {
	left, served := b.all, 0 // requests that have a sample
	if left == 0 {
		return c
	}
	for _, n := range seen {
		served += n
	}
	reads := b.sites[analyze.BackgroundRead]
	if c.http = reads != nil && 3*reads.n > seen[analyze.KindHTTP]; c.http {
		all, short := reads.estimate()
		c.long = short <= all/10
	}
	dialed := 0.0
	if site := b.sites[dialConn]; site != nil {
		dialed, _ = site.estimate()
	}
	for name, site := range b.sites {
		all, short := site.estimate()
		if name == startDial { // most are too short for a sample, but each starts two that read and write
			all = max(all, dialed/2)
			short = max(short, all-float64(site.n))
		}
		most, kind := 0, 0
		for k, n := range site.requests {
			if n > most {
				most, kind = n, k
			}
		}
		switch {
		case name == analyze.BackgroundRead && c.http:
			c.kinds[analyze.KindHTTP] = true
			continue
		case most > 0 && 10*site.n >= 9*most && name != connectionStart:
			c.kinds[kind] = true // its births are its requests
			continue
		case name == connectionStart && c.http && all > kinds[analyze.KindHTTP]/3:
			c.connections = all
			continue
		case site.n > served/20:
			if c.others += all; short > all/10 {
				c.short += all
			}
		}
		left -= all
	}
	sum := 0.0
	for k, n := range kinds {
		if c.kinds[k] {
			sum += n
		}
	}
	left -= c.connections
	c.fits = 1
	if c.unseen = left - sum; c.unseen < 0 && sum > 0 {
		c.unseen, c.fits = 0, max(0, left/sum)
	}
	return c
}

// A connection's goroutine stops running to wait for the next request, and at its end for the
// goroutine that reads in the background. Either may be needless under load, when the next request
// is there already or what it waits for is done. Handlers stop it further times.
const leastStops, fewStops = 1.2, 1.6

// startDial starts a goroutine that makes a connection of http.Transport, dialConn the two that
// read from it and write to it.
const startDial, dialConn = "net/http.(*Transport).startDialConnForLocked", "net/http.(*Transport).dialConn"

// connectionStart starts the goroutine of each connection of an HTTP/1 server.
const connectionStart = "net/http.(*Server).Serve"

// atLeast returns how many of the estimated requests there are at least: the estimate of those that
// have no sample is good to a third if ticks come late.
func atLeast(estimated float64, seen int) float64 {
	return estimated - max(0, (estimated-float64(seen))/2)
}

// numbers returns the number of requests by kind, and how many more there are at most than the
// samples tell. all are those that samples tell, by kind, with estimates of those that have none;
// more are further ones that connections must have served.
func (b *births) numbers(all, more [analyze.KindCount]float64, seen [analyze.KindCount]int) (out [analyze.KindCount]Number, unseen float64) {
	c := b.count(all, seen)
	counted, sum := 0, 0.0 // kinds
	for k := range all {
		if c.kinds[k] && seen[k] > 0 {
			counted++
			sum += all[k]
		}
	}
	for k, estimated := range all {
		if seen[k] == 0 {
			continue
		}
		if !c.kinds[k] {
			x := Number{Count: int(math.Round(estimated + more[k])), Seen: seen[k]}
			if x.Low = x.Count; more[k] == 0 && !b.joined[k] && k != analyze.KindGRPC && k != analyze.KindConnect {
				x.High = x.Count
			} else {
				x.Low = int(atLeast(estimated, seen[k]) + more[k])
			}
			out[k] = x
			continue
		}
		estimated *= c.fits
		low := atLeast(min(estimated+more[k], estimated+c.unseen), seen[k])
		high := estimated + c.unseen
		point := high
		chance := c.unseen < 0.04*sum
		if chance {
			point = estimated
		}
		if k == analyze.KindHTTP && c.connections > 0 { // each has one request at least
			point = max(estimated, estimated+(c.unseen+c.connections-estimated)/2)
			high = max(high, point)
		}
		others := c.others
		if k == analyze.KindHTTP && c.http && !c.long {
			others = c.short
		}
		known := counted == 1 && others == 0
		if !known && !chance { // who has the unseen ones is not known
			point = max(low, estimated+c.unseen*all[k]/(sum+others))
		}
		// Births that are no requests leave the goroutines of connections without enough stops.
		if k == analyze.KindHTTP && c.connections == 0 && b.stops > 0 && !b.stopsAtLeast {
			known = known && b.stops >= fewStops*point
			high = max(low, min(high, b.stops/leastStops))
			point = min(point, high)
		}
		if k == analyze.KindHTTP && b.still && c.http && c.long && c.connections == 0 {
			known, point = true, min(point, estimated) // who has the unseen ones is known: others
			low, high = min(low, point), min(high, estimated)
		}
		edges := 2 / float64(max(1, b.born)) // of what began first and last, some have no sample
		if known {
			low = max(low, (0.94-edges)*point)
		}
		x := Number{Count: max(seen[k], int(math.Round(point))), Seen: seen[k]}
		x.Low, x.High = min(x.Count, max(seen[k], int(low))), max(x.Count, int(math.Ceil((1.05+edges)*high)))
		if c.fits < fewBirths && c.others == 0 { // some samples may be late, so that one request looks like several
			x.Low = min(x.Low, int(point))
		}
		out[k] = x
	}
	return out, c.unseen
}
