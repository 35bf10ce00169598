package requests

import (
	"slices"

	"github.com/gotach/profiler/internal/analyze"
)

// finish says which requests have not ended, and which are not of the kind that is shown.
func (f *finder) finish() {
	f.lives.setGone()
	var seen [2][analyze.KindCount]bool
	lasts := func(r *request, longest uint64) bool {
		return f.End-min(f.End, r.last) <= max(20_000, 10*f.Interval(), 3*longest/2)
	}
	for c := range f.calls.All() {
		if !c.in {
			continue
		}
		r := f.list.At(c.request)
		if r.open = lasts(r, c.longest); !r.open {
			r.endsUnseen()
		}
		if f.splits {
			f.parts.At(c.part).open = r.open
			f.parts.At(c.part).endsUnseen()
		}
	}
	for r := range f.list.All() {
		if f.o.Label != "" {
			if r.after == r.last {
				r.endsUnseen()
			}
			r.open = f.End-min(f.End, r.last) <= max(2*f.Interval(), r.first-r.before)
		}
		if r.selected && !r.dropped {
			seen[analyze.Int(r.debug)][f.kindOf(r)] = true
		}
	}
	// Requests that look at the program, and tests, count if there are no others.
	for debug := range seen {
		if seen[debug] != [analyze.KindCount]bool{} && f.shown == [2][analyze.KindCount]bool{} {
			if f.shown[debug] = seen[debug]; debug == 0 {
				others := seen[0]
				if others[analyze.KindTest] = false; others != [analyze.KindCount]bool{} {
					f.shown[0] = others
				}
			}
		}
	}
	for r := range f.list.All() {
		if !r.selected {
			r.open, r.dropped = false, true
		} else if !f.shown[analyze.Int(r.debug)][f.kindOf(r)] {
			r.aside = true
		}
	}
	for r := range f.parts.All() {
		r.dropped = r.dropped || !r.selected
	}
	if f.o.Func == nil && f.o.Label == "" && f.shown[0][analyze.KindHTTP] && f.lives.exact() {
		f.useReads()
	}
}

// useReads takes the lengths of requests of HTTP/1 connections from the lives of the goroutines
// that tell them apart. These are sampled more often than a connection's goroutine if there are
// many connections.
func (f *finder) useReads() {
	// The handler has returned when the connection's goroutine is seen outside of it. The other
	// goroutine may live longer if the machine is busy.
	type handlerEnd struct{ last, after uint64 } // after is 0 if the end is not known
	ends := make([]handlerEnd, len(f.lives.all))
	unknown := f.routes.Of(route{kind: analyze.KindHTTP})
	routes := slices.Repeat([]uint32{unknown}, len(f.lives.all)) // by life: the request's route
	hidden := make([]bool, len(f.lives.all))                     // by life: the request is not shown
	for r := range f.list.All() {
		if r.read == 0 {
			continue
		}
		x := f.lives.all[r.read-1].request()
		if routes[r.read-1], hidden[r.read-1] = r.route, r.aside; r.aside {
			continue
		}
		if r.joined {
			r.before, r.first, r.last, r.after, r.joined = x.before, x.first, x.last, x.after, false
			continue
		}
		if e := &ends[r.read-1]; !r.open && !r.dropped && r.after > e.after {
			*e = handlerEnd{r.last, r.after}
		}
		r.before, r.first = max(r.before, min(x.before, r.first)), min(r.first, max(x.first, r.before))
		r.last = max(r.last, min(x.last, r.after))
		r.after = max(r.last, min(r.after, x.after))
	}
	var selected []bool // by life; nil: all
	if f.Source.Selects() {
		selected = make([]bool, len(f.lives.all))
		for r := range f.list.All() {
			if r.read != 0 && r.selected {
				selected[r.read-1] = true
			}
		}
	}
	for i := range f.lives.all {
		if selected != nil && !selected[i] || hidden[i] {
			continue
		}
		x := f.lives.all[i].request()
		x.route = routes[i]
		if x.last == 0 || x.before == f.Until {
			continue // not in the part of the profile that is read
		}
		if e := ends[i]; e.after > x.first {
			if x.last > e.after {
				x.last = max(x.first, e.last)
			}
			x.after = min(x.after, e.after)
		}
		x.open = f.End-min(f.End, x.last) <= max(20_000, 10*f.Interval(), 2*(x.first-x.before))
		f.reads.Add(x)
	}
}

// lengths returns the requests of which the lengths are taken, and if aside is set also those that
// are not shown.
func (f *finder) lengths(aside bool) []*request {
	list := f.reads.ended()
	for _, r := range f.list.those(aside) {
		if f.reads.Len == 0 || r.read == 0 || r.aside {
			list = append(list, r)
		}
	}
	return list
}
