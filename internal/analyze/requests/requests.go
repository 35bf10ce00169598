// Package requests finds the requests of a profile: how many there are, how long they take, and
// what the slow ones do. Command and page call [Find], a report of slow requests [FindSlow],
// package diff [FindEnded].
//
// # Files
//
//   - requests.go: reads the samples twice; finish.go: which requests have ended
//   - sums.go: what requests do
//   - slowest.go: requests for others
//   - rows.go: kinds and handlers; repeats.go: lines at which requests wait again and again
//   - lengths.go: how long requests are
//   - spans.go: which request a sample is of; labelspans.go, routes.go
//   - handlers.go: requests of an HTTP/1 connection, one after the other
//   - births.go: how many requests there are, by goroutines that began
//   - list.go: what is known of one request
//   - likely.go: which function's calls may be requests
package requests

import (
	"errors"
	"math"
	"regexp"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/source"
)

// Options say what a request is. The zero value finds HTTP handlers, else gRPC handlers, else
// tests.
type Options struct {
	Func    *regexp.Regexp // a request is an invocation of a function whose name matches
	Label   string         // a request is the time in which goroutines have one value of this label
	Slowest float64        // share of the requests that are slow; 0 is 0.01
	// Source is as in locks.Options.
	Source func(name string) *source.File
}

// Requests are the requests of a profile. An invocation is the longest run of a goroutine's samples
// in which the same call of the function is on the stack: the outermost frame that matches, with
// the same stack below it. Requests of an HTTP/1 connection that follow at once are told apart.
// Other calls with no sample between them look like one.
type Requests struct {
	What string `json:"what"`
	Number
	TooShort   int `json:"too_short"`  // seen at one tick only; such requests have mostly no sample at all
	Unfinished int `json:"unfinished"` // requests that last at the end of the profile; not counted
	// Oldest is how long the longest of these has lasted, if that is longer than all those took
	// that have ended.
	Oldest time.Duration `json:"oldest_ns,omitempty"`
	// Idle is the idle time of goroutines that have the label, but work in the background, such as
	// those of a connection that was made for a request and outlives it. It is in no request.
	Idle time.Duration `json:"idle_ns"`
	Lengths
	Short time.Duration `json:"short_ns"` // usual time between two samples: a shorter length is not known
	// Lower is not nil if calls may have followed each other with no sample between them: then it
	// has the lengths if each wait at a place where the goroutine has waited before is another
	// call.
	Lower *Lengths `json:"lower,omitempty"`
	// SlowPerSecond is how many requests a second take longer than SlowOver. That is known however
	// rare ticks are.
	SlowPerSecond float64       `json:"slow_per_second,omitempty"`
	SlowOver      time.Duration `json:"slow_over_ns,omitempty"`
	Rows          []Row         `json:"rows"` // each kind, then each handler
	Histogram     []Bucket      `json:"histogram"`
	Median        Group         `json:"median"` // those from the 40th percentile to the 60th
	Slow          Group         `json:"slow"`
	// Difference is what a slow request takes more than a median one, on average, the most first.
	Difference []Difference `json:"difference"`
	Slowest    []Request    `json:"slowest"`
	Repeats    []Repeat     `json:"repeats,omitempty"` // the most time first
	Waits      []Repeat     `json:"-"`                 // all lines at which requests waited, also once each
}

// A Number is a number of requests: Count is the best estimate, and Low and High are its limits.
type Number struct {
	Count int `json:"count"`
	Low   int `json:"count_low"`
	High  int `json:"count_high,omitempty"` // 0: unknown
	Seen  int `json:"seen"`                 // requests that have a sample
}

// Known reports whether the number is known within 10 %.
func (c Number) Known() bool { return c.High > 0 && 10*(c.High-c.Low) <= c.High }

// A Bucket counts requests of From to To. That of 0 to Short is one class: how long these are is
// not known.
type Bucket struct {
	From  time.Duration `json:"from_ns"`
	To    time.Duration `json:"to_ns"`
	Count int           `json:"count"`
}

// A Group is what requests do, on average.
type Group struct {
	Count  int                      `json:"count"`
	From   time.Duration            `json:"from_ns"` // length of the shortest
	States map[string]time.Duration `json:"states"`  // time of all its goroutines, for each request
}

// A Difference is the time in one function and state. The function is the innermost one of the
// program's own code, or of a module if the request has none. If the state is a wait, it is the
// time at one line; else Line is the one with the most time.
type Difference struct {
	Name  string        `json:"name"`
	File  string        `json:"file,omitempty"`
	Line  int32         `json:"line,omitempty"`
	State string        `json:"state"`
	Time  time.Duration `json:"ns"`
	// In is the innermost function of modules, or of all on a CPU, that slow requests are in for at
	// least half of this time. It is "" if that is the same function or there is none.
	In string `json:"in,omitempty"`
	// Object is the text of the lock or channel that the line waits for, such as "c.mu". Only the
	// first rows have it, if the source is here.
	Object string `json:"object,omitempty"`
	// Peer is the connection or file for which requests wait, such as "tcp 10.2.3.4:5432": see
	// locks.FarEnds.
	Peer string `json:"peer,omitempty"`
	// Ran is who had the cores meanwhile, the most first, if it is time in which slow requests
	// waited for one. It is nil if the profile is of several processes.
	Ran []Ran `json:"ran_instead,omitempty"`
}

// A Ran is who had the cores while others waited for one, as package cores names it, and for which
// share of that time.
type Ran struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
}

// A Request is one request.
type Request struct {
	Goroutine uint64            `json:"goroutine"` // the first one
	Start     uint64            `json:"start_us"`  // since the start of the profile
	Time      time.Duration     `json:"ns"`
	Labels    map[string]string `json:"labels"`
	Timeline  string            `json:"timeline"` // equal parts of its time: R runs, r could run, . waits
}

const (
	mostSlowest     = 10
	mostRan         = 3
	mostObjects     = 20 // rows of the difference that have an object
	timelineColumns = 30
)

// Find finds the requests of a profile. It reads the samples twice.
func Find(s *analyze.Samples, o Options) (*Requests, error) {
	r, out, err := readRequests(s, &o)
	if err != nil {
		return nil, err
	}
	f := r.finder
	again := newFinder(s, o)
	again.splits = false
	for x, err := range s.All() {
		n := int32(-1)
		if err == nil {
			n, err = again.add(x)
		}
		if err != nil {
			return nil, err
		}
		if n >= 0 && n < f.list.Len {
			r.add(x, n, out)
		}
	}
	r.result(out)
	return out, nil
}

// readRequests finds the requests, and which of them are slow. It reads the samples once.
func readRequests(s *analyze.Samples, o *Options) (*requestSums, *Requests, error) {
	if o.Slowest == 0 {
		o.Slowest = 0.01
	}
	if o.Func != nil && o.Label != "" {
		return nil, nil, errors.New("a request is either an invocation or a label's time, not both")
	}
	f, err := readFinder(s, *o)
	if err != nil {
		return nil, nil, err
	}
	if err := f.lives.births.readStops(s.Source); err != nil {
		return nil, nil, s.Named(err)
	}
	out := f.summary()
	r := &requestSums{finder: f, rows: map[requestRow]*requestRowSums{}, again: repeats{number: map[repeatKey]uint32{}, visits: map[uint64]visit{}}}
	if r.ends, err = locks.NewFarEnds(s); err != nil {
		return nil, nil, err
	}
	r.classify(out, o.Slowest)
	if err := r.slowRate(out); err != nil {
		return nil, nil, err
	}
	f.parts, f.reads, f.calls, f.lives = requestList{}, requestList{}, analyze.States[call]{}, lives{} // for the second reading, that memory is needed
	f.estimated, f.estimatedOf = nil, nil
	return r, out, nil
}

// summary returns the counts and the percentiles.
func (f *finder) summary() *Requests {
	out := &Requests{What: f.what(), Histogram: []Bucket{}, Rows: []Row{}, Difference: []Difference{}, Slowest: []Request{}, Idle: analyze.Micros(f.behind)}
	oldest := time.Duration(0)
	for r := range f.list.All() {
		if r.open && !r.aside {
			out.Unfinished++
			oldest = max(oldest, analyze.Micros(f.End-r.first))
		}
	}
	defer func() {
		if oldest > max(out.Max, out.MaxBelow) {
			out.Oldest = oldest
		}
	}()
	list := f.lengths(false)
	if out.Seen = len(list); out.Seen == 0 {
		if f.o.Label == "" && f.o.Func == nil {
			f.rows(out)
		}
		return out
	}
	l := f.estimate(list)
	out.Short = analyze.Micros(l.short)
	for _, x := range list {
		f.ended = append(f.ended, x.length())
		out.TooShort += analyze.Int(2*x.length() < 3*l.short)
	}
	if f.o.Label == "" && f.o.Func == nil {
		out.Number = f.rows(out)
	} else {
		out.Count = max(out.Seen, int(math.Round(l.all)))
		if out.Low = out.Seen; !mayJoin(list) {
			out.High = out.Count
		}
	}
	out.Lengths = l.percentiles(list, out.Number)
	if parts := f.parts.ended(); len(parts) > len(list) {
		p := estimate(parts)
		n := int(math.Round(p.all))
		lower := p.percentiles(parts, Number{n, n, n, len(parts)})
		for _, q := range []float64{0.5, 0.9, 0.99} {
			of, whole := p.quantile(q, p.all), l.quantile(q, l.all)
			if whole > of && whole-of > max(whole/10, l.short) {
				out.Lower = &lower
			}
		}
	}
	out.histogram(l)
	return out
}

// histogram sets the histogram. What is shorter than the time between two samples is one class.
func (r *Requests) histogram(l *lengths) {
	left, from := r.Count, uint64(0)
	for to := l.short; left > 0; from, to = to, 2*to {
		over := min(left, int(math.Round(l.over(to))))
		if left > over || len(r.Histogram) > 0 {
			r.Histogram = append(r.Histogram, Bucket{analyze.Micros(from), analyze.Micros(to), left - over})
		}
		left = over
	}
}
