package requests

import (
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/cores"
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// A finder finds requests while samples stream by.
type finder struct {
	*analyze.Samples
	o     Options
	shown [2][analyze.KindCount]bool // by route.debug and kind: these requests are shown
	list  requestList
	// parts are the requests, or parts of them: one ends where the goroutine waits at a place
	// again, which may be another call. Only the first reading has them.
	parts  requestList
	splits bool
	// reads are requests of HTTP/1 connections, if their lengths are those of the lives. Some have
	// no sample of the handler.
	reads requestList
	ended []uint64 // lengths of all that are shown, µs
	// estimated are the lengths of estimatedOf. Often all requests are of one kind, or one handler
	// has them all.
	estimated   *lengths
	estimatedOf []*request

	routes   stream.Table[route]
	routeAt  []uint32        // by stack: number of its route + 1; 0: not known yet
	wrappers map[string]bool // functions of the program that call handlers

	anchors  []uint32 // by stack: number of its anchor + 1; 0: not known yet
	calledAs stream.Table[anchor]
	calls    analyze.States[call]
	lives    lives
	unseen   uint64 // times between two samples in which an HTTP/1 connection served requests that have no sample

	values map[*stream.Labels]int32 // number of the label's value + 1; 0: none
	number map[string]int32         // of a value
	spans  [][]int32                // by value: its requests
	slack  uint64
	idle   *idle.Idle
	cores  *cores.Cores // after the first reading; nil: of several processes
	behind uint64       // time of goroutines in the background, µs
}

// An anchor says which call of a request's function a stack is in: stacks with equal anchors are in
// the same call, if nothing comes between them.
type anchor struct {
	gap      bool // nothing is known of this time
	function string
	kind     uint8
	below    uint32 // the stack that called the function
	serial   bool   // the goroutine makes such calls one after the other
}

// A call is the request that a goroutine is in.
type call struct {
	in      bool
	serves  bool   // it was in a call of RequestKinds[0]
	anchor  uint32 // index into finder.calledAs
	served  int32  // connection.request
	request int32
	part    int32
	longest uint64     // the greatest weight of its samples, µs
	places  [4]uint32  // the latest stacks of its waits, the latest first, without what it waited for
	conn    connection // also outside of a call
	span    int32      // of a label: number of the request + 1, 0: none
	// behind is the number of the label's value + 1 for which the goroutine does not work although
	// it has it: it works in the background and has inherited it.
	behind int32
}

func newFinder(s *analyze.Samples, o Options) *finder {
	return &finder{
		Samples: s, o: o, splits: true, calls: analyze.NewStates(s.Source, func(c *call) bool { return c.in || c.span != 0 || c.behind != 0 }), lives: lives{Samples: s},
		values: map[*stream.Labels]int32{}, number: map[string]int32{}, wrappers: map[string]bool{}, idle: idle.New(s.Source, nil),
	}
}

// readFinder returns a finder to which all samples were added.
func readFinder(s *analyze.Samples, o Options) (*finder, error) {
	f := newFinder(s, o)
	if s.Source.Processes() == nil {
		f.cores = cores.New(s.Source)
	}
	for x, err := range s.All() {
		if err == nil {
			if f.cores != nil {
				f.cores.Add(x.Sample)
			}
			_, err = f.add(x)
		}
		if err != nil {
			return nil, err
		}
	}
	f.finish()
	if f.cores != nil {
		f.cores.Finish()
	}
	return f, nil
}

// what says what a request is.
func (f *finder) what() string {
	switch {
	case f.o.Label != "":
		return "values of the label " + f.o.Label
	case f.o.Func != nil:
		return "invocations of " + f.o.Func.String()
	}
	var kinds []string
	for debug := range f.shown {
		for i, shown := range f.shown[debug] {
			switch {
			case shown && debug == 1:
				return "requests to look at the program itself"
			case shown:
				kinds = append(kinds, analyze.RequestKinds[i].What)
			}
		}
	}
	if len(kinds) == 0 {
		return "HTTP handlers, gRPC handlers or tests"
	}
	return strings.Join(kinds, ", ")
}

// add adds a sample. It returns the number of the request that it is of, or -1.
func (f *finder) add(s *analyze.Sample) (int32, error) {
	if s.Interpreter != tachyon.User {
		return -1, nil
	}
	c := f.calls.Of(s)
	if f.o.Label != "" {
		return f.addLabelled(s, c), nil
	}
	second, err := c.conn.sample(&f.lives, s)
	if err != nil {
		return -1, err
	}
	a, served := f.anchor(s.Stack), c.conn.request(&f.lives, s, c.in)
	called := &f.calledAs.List[a]
	if c.in && (a != c.anchor || served != c.served) {
		f.leave(c, f.lives.begun(s), called.gap)
	}
	if called.function == "" {
		if c.serves && !s.Unselected && s.Status&tachyon.Moved != 0 && f.idle.Always(s.Stack) {
			f.unseen++
		}
		return -1, nil
	}
	began := request{before: s.Begin(), first: s.At, goroutine: s.Goroutine}
	if c.in = c.in || f.stillIn(c, s, a, served); !c.in {
		*c = call{in: true, serves: f.o.Func == nil && called.kind == analyze.KindHTTP, anchor: a, served: served, request: f.list.Len, part: f.parts.Len, conn: c.conn}
		f.list.Add(began)
		f.lives.births.serves(s.Goroutine, called.kind)
		if f.splits {
			f.parts.Add(began)
		}
	}
	r := f.list.At(c.request)
	if called.serial && r.last != 0 && f.mayFollow(c, s, served) {
		r.joined = true
		if f.splits && served == 0 {
			f.parts.At(c.part).ends(s.At)
			c.part = f.parts.Len
			f.parts.Add(began)
		}
	}
	n := f.routeOfStack(s.Stack, called)
	if f.routes.List[n].depth > f.routes.List[r.route].depth || r.last == 0 {
		r.route = n
	}
	r.debug = r.debug || f.routes.List[n].debug
	r.goesOn(s)
	if second && r.first == s.Begin() {
		r.first = s.At
	}
	if r.read = served; served != 0 {
		f.lives.samples++
		if x := f.lives.all[served-1]; s.At > x.from && s.At <= x.last {
			f.lives.alive++
		}
	}
	if f.splits {
		f.parts.At(c.part).goesOn(s)
	}
	c.longest = max(c.longest, s.At-s.Begin())
	return c.request, nil
}

// leave notes that a goroutine's request ends at a time, and whether it is unknown for how long it
// lasted.
func (f *finder) leave(c *call, at uint64, dropped bool) {
	r := f.list.At(c.request)
	r.dropped = dropped
	r.ends(at)
	if f.splits {
		part := f.parts.At(c.part)
		part.dropped = dropped
		part.ends(at)
	}
	c.in = false
}

// stillIn reports whether a sample is of the call before, although one between them is of none: on
// a busy machine, that may be of a moment before. The goroutine that reads from the connection in
// the background lives for one request.
func (f *finder) stillIn(c *call, s *analyze.Sample, a uint32, served int32) bool {
	if served == 0 || served != c.served || a != c.anchor || f.o.Func != nil || f.calledAs.List[a].kind != analyze.KindHTTP {
		return false
	}
	r, x := f.list.At(c.request), &f.lives.all[served-1]
	return !r.dropped && x.first <= r.last && s.At <= x.last
}

// mayFollow reports whether a sample of a serial call may be of another request than the one
// before.
func (f *finder) mayFollow(c *call, s *analyze.Sample, served int32) bool {
	if served == 0 {
		return f.again(c, s)
	}
	x := &f.lives.all[served-1]
	return s.Status&tachyon.Moved != 0 && (s.Begin() < x.from || s.At > x.last)
}

// routeOfStack returns the number of the route of a stack that is in a call.
func (f *finder) routeOfStack(stack uint32, called *anchor) uint32 {
	if *analyze.At(&f.routeAt, stack, f.Stacks()) == 0 {
		f.routeAt[stack] = f.route(stack, called) + 1
	}
	return f.routeAt[stack] - 1
}

// kindOf returns the kind of a request, an index into analyze.RequestKinds.
func (f *finder) kindOf(r *request) uint8 {
	if len(f.routes.List) == 0 {
		return analyze.KindHTTP
	}
	return f.routes.List[r.route].kind
}

// again reports whether the goroutine waits where it has waited before in the same call, and has
// run between.
func (f *finder) again(c *call, s *analyze.Sample) bool {
	if !analyze.Waits(s.Status) {
		return false
	}
	place := f.Caller(s.Stack) // each call may wait for another channel
	i := slices.Index(c.places[:], place)
	switch {
	case i < 0:
		copy(c.places[1:], c.places[:])
		c.places[0] = place
		return false
	case i == 0 && s.Status&tachyon.Moved == 0:
		return false
	}
	c.places = [4]uint32{place}
	return true
}

// anchor returns the number of a stack's anchor. The anchor's function is "" if the stack is of no
// request.
func (f *finder) anchor(stack uint32) uint32 {
	if n := *analyze.At(&f.anchors, stack, f.Stacks()); n > 0 {
		return n - 1
	}
	var a anchor
	a.gap = stack != 0 && analyze.IsGap(f.Leaf(stack))
	for at := stack; at != 0; at = f.Caller(at) {
		name, below, caller := f.Leaf(at).Func, f.Caller(at), ""
		if below != 0 {
			caller = f.Leaf(below).Func
		}
		fasthttp := analyze.ServesFasthttp(caller)
		if kind, ok := f.matches(name); ok || fasthttp && f.o.Func == nil && analyze.FasthttpHandler(name) { // the outermost one counts
			a.function, a.kind, a.below = name, kind, below
			a.serial = f.o.Func != nil || fasthttp || caller == "net/http.(*conn).serve" // else it has a goroutine to itself, as in HTTP/2
		}
		if f.o.Func == nil && analyze.Elsewhere[name] {
			return f.setAnchor(stack, anchor{})
		}
	}
	return f.setAnchor(stack, a)
}

func (f *finder) setAnchor(stack uint32, a anchor) uint32 {
	n := f.calledAs.Of(a)
	f.anchors[stack] = n + 1
	return n
}

// matches reports whether a function's invocations are requests, and of which kind.
func (f *finder) matches(function string) (kind uint8, ok bool) {
	if f.o.Func != nil {
		return 0, f.o.Func.MatchString(function)
	}
	return analyze.RequestKind(function)
}
