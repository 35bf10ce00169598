package analyze

import (
	"regexp"
	"slices"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// A request is a request that a finder found.
type request struct {
	begin, end uint64 // µs
	goroutine  uint64
	kind       uint8 // index into requestKinds
	open       bool  // it lasts at the end of the profile
	dropped    bool  // unknown for how long it lasted, or of a kind that is not shown
}

// requestKinds are the functions whose invocations are requests if nothing else is said, the ones to
// prefer first.
var requestKinds = []struct {
	what     string
	function *regexp.Regexp
}{
	{"HTTP handlers (ServeHTTP)", regexp.MustCompile(`\.ServeHTTP$`)},
	{"gRPC handlers", regexp.MustCompile(`^google\.golang\.org/grpc\.\(\*Server\)\.process(Unary|Streaming)RPC$`)},
	{"tests", regexp.MustCompile(`^testing\.tRunner$`)},
}

// A finder finds requests while samples stream by.
type finder struct {
	*Samples
	o     RequestOptions
	kinds int // bit i: there are requests of requestKinds[i]; 0: not known yet
	list  []request

	anchors []anchor // by stack
	calls   states[call]

	values map[*stream.Labels]int32 // number of the label's value + 1; 0: none
	number map[string]int32         // of a value
	spans  [][]int32                // by value: its requests
	slack  uint64
}

// An anchor says which call of a request's function a stack is in: stacks with equal anchors are in
// the same call, if nothing comes between them.
type anchor struct {
	known    bool
	gap      bool // nothing is known of this time
	function string
	kind     uint8
	below    uint32 // the stack that called the function
}

// A call is the request that a goroutine is in.
type call struct {
	in      bool
	anchor  anchor
	request int32
	longest uint64 // the greatest weight of its samples, µs
}

func newFinder(s *Samples, o RequestOptions) *finder {
	return &finder{
		Samples: s, o: o, calls: states[call]{keep: func(c *call) bool { return c.in }},
		values: map[*stream.Labels]int32{}, number: map[string]int32{},
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
func (f *finder) add(s *sample) int32 {
	if s.Interpreter != tachyon.User {
		return -1
	}
	if f.o.Label != "" {
		return f.labelled(s)
	}
	a := f.anchor(s.Stack)
	c := f.calls.of(s)
	if c.in && a != c.anchor {
		if a.gap {
			f.list[c.request].dropped = true
		}
		c.in = false
	}
	if a.function == "" {
		return -1
	}
	if !c.in {
		*c = call{in: true, anchor: a, request: int32(len(f.list))}
		f.list = append(f.list, request{begin: s.begin(), goroutine: s.Goroutine, kind: a.kind})
	}
	f.list[c.request].end = s.time
	c.longest = max(c.longest, s.time-s.begin())
	return c.request
}

// anchor returns the anchor of a stack. Its function is "" if the stack is of no request.
func (f *finder) anchor(stack uint32) (a anchor) {
	if int(stack) >= len(f.anchors) {
		f.anchors = append(f.anchors, make([]anchor, f.stacks()-len(f.anchors))...)
	}
	if f.anchors[stack].known {
		return f.anchors[stack]
	}
	a.known = true
	a.gap = stack != 0 && isGap(f.leaf(stack))
	for at := stack; at != 0; at = f.caller(at) {
		name := f.leaf(at).Func
		if kind, ok := f.matches(name); ok { // the outermost one counts
			a.function, a.kind, a.below = name, kind, f.caller(at)
		}
	}
	f.anchors[stack] = a
	return a
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

// labelled adds a sample if it has the label.
func (f *finder) labelled(s *sample) int32 {
	if s.Labels == nil {
		return -1
	}
	v, ok := f.values[s.Labels]
	if !ok {
		if text, has := s.Labels.Set[f.o.Label]; has {
			if v, ok = f.number[text]; !ok {
				f.spans = append(f.spans, nil)
				v = int32(len(f.spans))
				f.number[text] = v
			}
		}
		f.values[s.Labels] = v
	}
	if v == 0 {
		return -1
	}
	// Goroutines do not come in order of time, but nearly. Times that are near each other are one
	// request.
	f.slack = max(20_000, 10*f.interval())
	list := f.spans[v-1]
	for _, n := range slices.Backward(list[max(0, len(list)-8):]) {
		r := &f.list[n]
		if s.begin() <= r.end+f.slack && s.time+f.slack >= r.begin {
			r.begin, r.end = min(r.begin, s.begin()), max(r.end, s.time)
			return n
		}
	}
	n := int32(len(f.list))
	f.list = append(f.list, request{begin: s.begin(), end: s.time, goroutine: s.Goroutine})
	f.spans[v-1] = append(list, n)
	return n
}

// finish says which requests have not ended, and which are not of the kind that is shown.
func (f *finder) finish() {
	for c := range f.calls.all() {
		if c.in && f.end-min(f.end, f.list[c.request].end) <= max(20_000, 10*f.interval(), 3*c.longest/2) {
			f.list[c.request].open = true
		}
	}
	if f.o.Label != "" {
		for i := range f.list {
			f.list[i].open = f.end-min(f.end, f.list[i].end) <= 2*f.interval()
		}
	}
	for i := range f.list {
		f.kinds |= 1 << f.list[i].kind
	}
	for i := range f.list {
		if f.kinds&(1<<f.list[i].kind-1) != 0 { // there is a kind before it
			f.list[i].open, f.list[i].dropped = false, true
		}
	}
}
