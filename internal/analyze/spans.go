package analyze

import (
	"regexp"
	"slices"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// requestKinds are the functions whose invocations are requests if nothing else is said, the ones to
// prefer first.
var requestKinds = []struct {
	what     string
	function *regexp.Regexp
}{
	{"HTTP handlers (ServeHTTP)", regexp.MustCompile(`\.ServeHTTP$`)},
	{"gRPC handlers", regexp.MustCompile(`^google\.golang\.org/grpc\.\(\*Server\)\.process(Unary|Streaming|)RPC$`)},
	{"tests", regexp.MustCompile(`^testing\.tRunner$`)},
}

// A finder finds requests while samples stream by.
type finder struct {
	*Samples
	o     RequestOptions
	kinds int // bit i: there are requests of requestKinds[i]; 0: not known yet
	list  requestList
	// parts are the requests, or parts of them: one ends where the goroutine waits at a place again,
	// which may be another call. Only if splits is set.
	parts  requestList
	splits bool
	// reads are requests of HTTP/1 connections, if their lengths are those of the lives. Some have no
	// sample of the handler.
	reads requestList

	anchors  []uint32 // by stack: index into kinds of calls + 1; 0: not known yet
	calledAs []anchor
	numberOf map[anchor]uint32
	calls    states[call]
	lives    lives
	unseen   uint64 // times between two samples in which an HTTP/1 connection served requests that have no sample

	values map[*stream.Labels]int32 // number of the label's value + 1; 0: none
	number map[string]int32         // of a value
	spans  [][]int32                // by value: its requests
	slack  uint64
	idle   *Idle
	behind uint64 // time of goroutines in the background, µs
}

// An anchor says which call of a request's function a stack is in: stacks with equal anchors are in
// the same call, if nothing comes between them.
type anchor struct {
	gap      bool // nothing is known of this time
	function string
	kind     uint8
	below    uint32 // the stack that called the function
}

// A call is the request that a goroutine is in.
type call struct {
	in      bool
	serves  bool   // it was in a call of requestKinds[0]
	anchor  uint32 // index into finder.calledAs
	served  int32  // connection.request
	request int32
	part    int32
	longest uint64     // the greatest weight of its samples, µs
	places  [4]uint32  // the latest stacks of its waits, the latest first
	conn    connection // also outside of a call
	span    int32      // of a label: number of the request + 1, 0: none
	// behind is the number of the label's value + 1 for which the goroutine does not work although it has it: it
	// works in the background and has inherited it.
	behind int32
}

func newFinder(s *Samples, o RequestOptions) *finder {
	return &finder{
		Samples: s, o: o, splits: o.Func != nil, calls: states[call]{src: s.src, keep: func(c *call) bool { return c.in || c.span != 0 || c.behind != 0 }}, lives: lives{Samples: s},
		values: map[*stream.Labels]int32{}, number: map[string]int32{}, numberOf: map[anchor]uint32{}, idle: NewIdle(s.src),
	}
}

// what says what a request is.
func (f *finder) what() string {
	switch {
	case f.o.Label != "":
		return "values of the label " + f.o.Label
	case f.o.Func != nil:
		return "invocations of " + f.o.Func.String()
	}
	for i := range requestKinds {
		if f.kinds&(1<<i) != 0 {
			return requestKinds[i].what
		}
	}
	return "HTTP handlers, gRPC handlers or tests"
}

// add adds a sample. It returns the number of the request that it is of, or -1.
func (f *finder) add(s *sample) (int32, error) {
	if s.Interpreter != tachyon.User {
		return -1, nil
	}
	c := f.calls.of(s)
	if f.o.Label != "" {
		n := f.labelled(s, c)
		if c.span != 0 && n != c.span-1 {
			if r := f.list.at(c.span - 1); r.last >= s.begin() { // it was the request's last goroutine so far
				r.ends(s.time)
			}
		}
		c.span = n + 1
		return n, nil
	}
	second, err := c.conn.sample(&f.lives, s)
	if err != nil {
		return -1, err
	}
	a, served := f.anchor(s.Stack), c.conn.request(&f.lives, s)
	called := &f.calledAs[a]
	if c.in && (a != c.anchor || served != c.served) {
		f.list.at(c.request).dropped = called.gap
		f.list.at(c.request).ends(s.time)
		if f.splits {
			f.parts.at(c.part).ends(s.time)
			f.parts.at(c.part).dropped = called.gap
		}
		c.in = false
	}
	if called.function == "" {
		if c.serves && !s.Unselected && s.Status&tachyon.Moved != 0 && f.idle.stack(s.Stack).kind == idleAlways {
			f.unseen++
		}
		return -1, nil
	}
	began := request{before: s.begin(), first: s.time, goroutine: s.Goroutine, kind: called.kind}
	if !c.in {
		*c = call{in: true, serves: f.o.Func == nil && called.kind == 0, anchor: a, served: served, request: f.list.len, part: f.parts.len, conn: c.conn}
		f.list.add(began)
		if f.splits {
			f.parts.add(began)
		}
	} else if f.splits && c.again(s) {
		f.parts.at(c.part).ends(s.time)
		c.part = f.parts.len
		f.parts.add(began)
	}
	r := f.list.at(c.request)
	r.goesOn(s)
	if second && r.first == s.begin() {
		r.first = s.time
	}
	if r.read = served; served != 0 {
		f.lives.samples++
		if x := f.lives.all[served-1]; s.time > x.from && s.time <= x.last {
			f.lives.alive++
		}
	}
	if f.splits {
		f.parts.at(c.part).goesOn(s)
	}
	c.longest = max(c.longest, s.time-s.begin())
	return c.request, nil
}

// again reports whether the goroutine waits where it has waited before in the same call, and has run
// between.
func (c *call) again(s *sample) bool {
	if !waits(s.Status) {
		return false
	}
	i := slices.Index(c.places[:], s.Stack)
	switch {
	case i < 0:
		copy(c.places[1:], c.places[:])
		c.places[0] = s.Stack
		return false
	case i == 0 && s.Status&tachyon.Moved == 0:
		return false
	}
	c.places = [4]uint32{s.Stack}
	return true
}

// anchor returns the number of a stack's anchor. The anchor's function is "" if the stack is of no request.
func (f *finder) anchor(stack uint32) uint32 {
	if int(stack) >= len(f.anchors) {
		f.anchors = append(f.anchors, make([]uint32, f.stacks()-len(f.anchors))...)
	}
	if n := f.anchors[stack]; n > 0 {
		return n - 1
	}
	var a anchor
	a.gap = stack != 0 && isGap(f.leaf(stack))
	for at := stack; at != 0; at = f.caller(at) {
		name := f.leaf(at).Func
		if kind, ok := f.matches(name); ok { // the outermost one counts
			a.function, a.kind, a.below = name, kind, f.caller(at)
		}
	}
	n, ok := f.numberOf[a]
	if !ok {
		n = uint32(len(f.calledAs))
		f.numberOf[a] = n
		f.calledAs = append(f.calledAs, a)
	}
	f.anchors[stack] = n + 1
	return n
}

// matches reports whether a function's invocations are requests, and of which kind.
func (f *finder) matches(function string) (kind uint8, ok bool) {
	if f.o.Func != nil {
		return 0, f.o.Func.MatchString(function)
	}
	for i := range requestKinds {
		if requestKinds[i].function.MatchString(function) {
			return uint8(i), true
		}
	}
	return 0, false
}

// maxValues is the number of labels of which the value is kept. There is no bound to that of their addresses.
const maxValues = 1 << 16

// labelled adds a sample if it has the label. c is the state of its goroutine.
func (f *finder) labelled(s *sample, c *call) int32 {
	if s.Labels == nil {
		return -1
	}
	v, ok := f.values[s.Labels]
	if !ok {
		if text, has := s.Labels.Get(f.o.Label); has {
			if v, ok = f.number[text]; !ok {
				f.spans = append(f.spans, nil)
				v = int32(len(f.spans))
				f.number[text] = v
			}
		}
		if len(f.values) >= maxValues {
			clear(f.values)
		}
		f.values[s.Labels] = v
	}
	if v == 0 {
		return -1
	}
	if c.behind != v && waits(s.Status) && f.idle.stack(s.Stack).kind == idleAlways {
		c.behind = v
	}
	if c.behind == v {
		if waits(s.Status) && !s.Unselected {
			f.behind += s.time - s.begin()
		}
		return -1
	}
	// Goroutines do not come in order of time, but nearly. Times that are near each other are one
	// request.
	f.slack = max(20_000, 10*f.interval())
	list := f.spans[v-1]
	for _, n := range slices.Backward(list[max(0, len(list)-8):]) {
		r := f.list.at(n)
		if s.begin() <= r.last+f.slack && s.time+f.slack >= r.before {
			if s.time < r.first {
				r.before, r.first = s.begin(), s.time
			}
			if s.time > r.last {
				r.goesOn(s)
			}
			r.selected = r.selected || !s.Unselected
			return n
		}
	}
	n := f.list.len
	f.list.add(request{before: s.begin(), first: s.time, last: s.time, after: s.time, goroutine: s.Goroutine, selected: !s.Unselected})
	f.spans[v-1] = append(list, n)
	return n
}

// finish says which requests have not ended, and which are not of the kind that is shown.
func (f *finder) finish() {
	f.lives.setGone()
	lasts := func(r *request, longest uint64) bool {
		return f.end-min(f.end, r.last) <= max(20_000, 10*f.interval(), 3*longest/2)
	}
	for c := range f.calls.all() {
		if !c.in {
			continue
		}
		r := f.list.at(c.request)
		if r.open = lasts(r, c.longest); !r.open {
			r.endsUnseen()
		}
		if f.splits {
			f.parts.at(c.part).open = r.open
			f.parts.at(c.part).endsUnseen()
		}
	}
	for r := range f.list.all() {
		if f.o.Label != "" {
			if r.after == r.last {
				r.endsUnseen()
			}
			r.open = f.end-min(f.end, r.last) <= max(2*f.interval(), r.first-r.before)
		}
		if r.selected {
			f.kinds |= 1 << r.kind
		}
	}
	for r := range f.list.all() {
		if f.kinds&(1<<r.kind-1) != 0 || !r.selected { // there is a kind before it
			r.open, r.dropped = false, true
		}
	}
	for r := range f.parts.all() {
		r.dropped = r.dropped || !r.selected
	}
	if f.o.Func == nil && f.o.Label == "" && f.kinds&1 != 0 && f.lives.exact() {
		f.useReads()
	}
}

// useReads takes the lengths of requests of HTTP/1 connections from the lives of the goroutines that tell
// them apart. These are sampled more often than a connection's goroutine if there are many connections.
func (f *finder) useReads() {
	// The handler has returned when the connection's goroutine is seen outside of it. The other goroutine may live
	// longer if the machine is busy.
	type handlerEnd struct{ last, after uint64 } // after is 0 if the end is not known
	ends := make([]handlerEnd, len(f.lives.all))
	for r := range f.list.all() {
		if r.read == 0 {
			continue
		}
		x := f.lives.all[r.read-1].request()
		if e := &ends[r.read-1]; !r.open && !r.dropped && r.after > e.after {
			*e = handlerEnd{r.last, r.after}
		}
		r.before, r.first = max(r.before, min(x.before, r.first)), min(r.first, max(x.first, r.before))
		r.last = max(r.last, min(x.last, r.after))
		r.after = max(r.last, min(r.after, x.after))
	}
	var selected []bool // by life; nil: all
	if f.src.Selects() {
		selected = make([]bool, len(f.lives.all))
		for r := range f.list.all() {
			if r.read != 0 && r.selected {
				selected[r.read-1] = true
			}
		}
	}
	for i := range f.lives.all {
		if selected != nil && !selected[i] {
			continue
		}
		x := f.lives.all[i].request()
		if x.last == 0 || x.before == f.to {
			continue // not in the part of the profile that is read
		}
		if e := ends[i]; e.after > x.first {
			if x.last > e.after {
				x.last = max(x.first, e.last)
			}
			x.after = min(x.after, e.after)
		}
		x.open = f.end-min(f.end, x.last) <= max(20_000, 10*f.interval(), 2*(x.first-x.before))
		f.reads.add(x)
	}
}

// lengths returns the requests of which the lengths are taken.
func (f *finder) lengths() []*request {
	list := f.reads.ended()
	for _, r := range f.list.ended() {
		if f.reads.len == 0 || r.read == 0 {
			list = append(list, r)
		}
	}
	return list
}
