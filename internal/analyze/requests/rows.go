package requests

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/analyze"
)

// A Row has the requests of one handler, or of one kind if Handler is "" and All is set.
type Row struct {
	Kind    string `json:"kind"`              // such as HTTP
	Handler string `json:"handler,omitempty"` // function; "": of all, or no sample shows which
	All     bool   `json:"all,omitempty"`     // all handlers of the kind
	// Aside says that what the other fields of Requests say is not of them: they look at the
	// program itself, such as /debug/pprof, or are tests that send requests.
	Aside bool `json:"aside,omitempty"`
	Number
	Lengths
	Time time.Duration `json:"ns"` // of all that have a sample
}

// Lengths are estimated from all requests: of one request the length is known only as exactly as
// the ticks are frequent. A length is 0 if only a limit is known, which is in the field Below: it
// is shorter than that. Max is that of the longest request, in the middle of what is possible.
type Lengths struct {
	P50      time.Duration `json:"p50_ns,omitempty"`
	P50Below time.Duration `json:"p50_ns_below,omitempty"`
	P90      time.Duration `json:"p90_ns,omitempty"`
	P90Below time.Duration `json:"p90_ns_below,omitempty"`
	P99      time.Duration `json:"p99_ns,omitempty"`
	P99Below time.Duration `json:"p99_ns_below,omitempty"`
	Max      time.Duration `json:"max_ns,omitempty"`
	MaxBelow time.Duration `json:"max_ns_below,omitempty"`
}

const (
	maxRequestRows = 100
	// fewRequests is how many requests a handler has at most that is left out if they take less
	// than a hundredth of the time of its kind. Mostly it is a function that a handler or its
	// middleware called when these had their only sample.
	fewRequests = 2
)

// A requestGroup is requests of one row.
type requestGroup struct {
	key  Row
	list []*request
	kind int // index into RequestKinds
	lens *lengths
}

const debugRequests = "debug" // Row.Kind of requests that look at the program itself

// groups returns the requests that have ended by kind, then by handler, those that take the most
// time first. Handlers with few requests are left out.
func (f *finder) groups() (kinds [2][analyze.KindCount]*requestGroup, handlers []*requestGroup) {
	of := map[Row]*requestGroup{}
	add := func(key Row, r *request) *requestGroup {
		g := of[key]
		if g == nil {
			g = &requestGroup{key: key, kind: int(f.kindOf(r))}
			of[key] = g
			if !key.All {
				handlers = append(handlers, g)
			}
		}
		g.list = append(g.list, r)
		g.key.Time += analyze.Micros(r.length())
		return g
	}
	for _, r := range f.lengths(true) {
		at, debug := f.routes.List[r.route], analyze.Int(r.debug)
		name := at.name
		if f.wrappers[name] {
			name = ""
		}
		what := analyze.RequestKinds[at.kind].Name
		if r.debug {
			what = debugRequests
		}
		key := Row{Kind: what, Aside: !f.shown[debug][at.kind]}
		all := key
		all.All = true
		kinds[debug][at.kind] = add(all, r)
		key.Handler = name
		add(key, r)
	}
	handlers = slices.DeleteFunc(handlers, func(g *requestGroup) bool {
		all := kinds[analyze.Int(g.key.Kind == debugRequests)][g.kind]
		return len(g.list) <= fewRequests && 100*g.key.Time < all.key.Time
	})
	slices.SortStableFunc(handlers, func(a, b *requestGroup) int {
		return cmp.Or(cmp.Compare(b.key.Time, a.key.Time), cmp.Compare(a.key.Handler, b.key.Handler))
	})
	return kinds, handlers[:min(len(handlers), maxRequestRows)]
}

// share returns the number of requests of a group, given that of its kind, of which all are known
// from samples.
func (g *requestGroup) share(kind Number, all float64) Number {
	own := g.lens.all
	if kind.High > 0 { // births may tell that there are fewer
		own, all = own*min(1, float64(kind.High)/all), min(all, float64(kind.High))
	}
	c := Number{Count: int(math.Round(float64(kind.Count) * own / all)), Seen: len(g.list)}
	if kind.Known() { // else those that have a sample are all that is certain
		c.Low = int(own * min(1, float64(kind.Low)/all))
	}
	if g.key.Kind == debugRequests { // they are no part of what counts, and last for long
		c.Count, c.High = int(math.Round(own)), int(math.Round(own))
	} else if kind.High > 0 {
		c.High = int(math.Ceil(own + float64(kind.High) - all))
	}
	c.Count = max(c.Count, c.Seen)
	c.Low = min(max(c.Low, c.Seen), c.Count)
	if c.High > 0 {
		c.High = max(c.High, c.Count)
	}
	return c
}

// rows sets the rows of the requests, and returns the number of those that are shown.
func (f *finder) rows(out *Requests) (shown Number) {
	kinds, handlers := f.groups()
	var all, more [analyze.KindCount]float64
	var seen [analyze.KindCount]int
	for debug := range kinds {
		for k, g := range kinds[debug] {
			if g != nil {
				g.lens = f.estimate(g.list)
				all[k] += g.lens.all
				f.lives.births.joined[k] = f.lives.births.joined[k] || mayJoin(g.list)
				seen[k] += len(g.list)
			}
		}
	}
	if g := kinds[0][analyze.KindHTTP]; g != nil {
		more[analyze.KindHTTP] = f.unexplained(g)
	}
	m := f.Source.Metadata().Session
	f.lives.births.still = m != nil && m.Markers && 50*f.unseen <= uint64(seen[analyze.KindHTTP])
	counts, unseen := f.lives.births.numbers(all, more, seen)
	add := func(g *requestGroup, k int) Number {
		row, c := g.key, counts[k]
		if len(g.list) < seen[k] {
			c = g.share(c, all[k])
		}
		row.Number, row.Lengths = c, g.lens.percentiles(g.list, c)
		out.Rows = append(out.Rows, row)
		return c
	}
	known, sum, several := true, 0.0, 0
	for debug := range kinds {
		for k, g := range kinds[debug] {
			if g == nil {
				continue
			}
			several++
			if c := add(g, k); f.shown[debug][k] {
				shown = Number{shown.Count + c.Count, shown.Low + c.Low, shown.High + c.High, shown.Seen + c.Seen}
				known = known && c.High > 0
				sum += g.lens.all
			}
		}
	}
	if most := 1.05 * (sum + unseen); !known {
		shown.High = 0
	} else if several > 1 && float64(shown.High) > most { // each kind may have all of the unseen ones, but not all kinds
		shown.High = max(shown.Seen, int(most))
	}
	if shown.High > 0 {
		shown.Count = min(shown.Count, shown.High)
	}
	for _, g := range handlers {
		g.lens = f.estimate(g.list)
		add(g, g.kind)
	}
	return shown
}

// unexplained returns how many requests of HTTP/1 without a sample there were besides those that
// the lengths explain, which are too few if most requests are much shorter than a tick.
func (f *finder) unexplained(g *requestGroup) float64 {
	runs := 0
	for _, r := range f.list.ended() {
		runs += analyze.Int(f.kindOf(r) == analyze.KindHTTP)
	}
	without := float64(f.unseen) - float64(max(0, len(g.list)-runs)) - (g.lens.all - float64(len(g.list)))
	if without <= g.lens.all/50 {
		return 0
	}
	return without
}
