package requests

import (
	"cmp"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/tachyon"
)

// A Repeat is a line at which requests wait again and again, such as a query for each row of
// another one.
type Repeat struct {
	Func  string `json:"func"`
	File  string `json:"file"`
	Line  int    `json:"line"`
	State string `json:"state"`
	// Time is that of all requests there. Waits is the number of waits that were seen: a tick sees
	// one, so there were at least so many.
	Time     time.Duration `json:"ns"`
	Waits    int           `json:"waits"`
	Requests int           `json:"requests"` // that waited there
}

// Each returns how many waits a request was seen in there, on average.
func (r *Repeat) Each() float64 { return float64(r.Waits) / float64(max(1, r.Requests)) }

// leastRepeats is the number of waits of a request at a line from which on they are a Repeat.
const leastRepeats = 3

// repeats count the waits of requests at each line.
type repeats struct {
	number map[repeatKey]uint32
	sums   []Repeat
	lines  []uint32 // by stack: index into sums + 1; 0: not looked at
	visits map[uint64]visit
}

type repeatKey struct {
	frame tachyon.Frame
	state string
}

// A visit is what a goroutine did at its previous sample in a request.
type visit struct {
	request int32
	last    uint32    // index into repeats.sums + 1 of the place at which it waited; 0: none
	places  [4]uint32 // at which it has waited in the request
}

// repeat counts a sample of a request.
func (r *requestSums) repeat(s *analyze.Sample, number int32) {
	v, ok := r.again.visits[s.Goroutine]
	if !ok || v.request != number {
		v = visit{request: number}
	}
	at := uint32(0)
	if s.Stack != 0 && analyze.Waits(s.Status) {
		at = r.lineOf(s)
	}
	if at != 0 && !s.Unselected {
		sums := &r.again.sums[at-1]
		sums.Time += analyze.Micros(s.At - s.Begin())
		if at != v.last || s.Status&tachyon.Moved != 0 {
			sums.Waits++
		}
		if !slices.Contains(v.places[:], at) {
			copy(v.places[1:], v.places[:])
			v.places[0] = at
			sums.Requests++
		}
	}
	v.last = at
	r.again.visits[s.Goroutine] = v
}

// lineOf returns the number of the line at which a sample waits, 0 if it has none.
func (r *requestSums) lineOf(s *analyze.Sample) uint32 {
	if n := *analyze.At(&r.again.lines, s.Stack, r.Stacks()); n != 0 {
		return n
	}
	key := repeatKey{state: r.Source.State(s.Status, s.Stack)}
	if f := r.ProgramFrameAbove(s.Stack, r.below(s.Stack)); f != nil {
		key.frame = *f
	}
	n, ok := r.again.number[key]
	if !ok {
		r.again.sums = append(r.again.sums, Repeat{Func: key.frame.Func, File: key.frame.File, Line: int(key.frame.Line), State: key.state})
		n = uint32(len(r.again.sums))
		r.again.number[key] = n
	}
	r.again.lines[s.Stack] = n
	return n
}

// result returns the lines at which requests waited again and again, the most time first.
func (r *repeats) result() (out []Repeat) {
	for _, x := range r.sums {
		if x.Requests > 0 && x.Func != "" && x.Each() >= leastRepeats {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b Repeat) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Func, b.Func), cmp.Compare(a.Line, b.Line), cmp.Compare(a.State, b.State))
	})
	return out
}
