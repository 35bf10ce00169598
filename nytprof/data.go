package nytprof

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// Data is a whole profile in memory, as Devel::NYTProf::Data has it.
type Data struct {
	Attributes []Attribute // in the order of the file
	Options    []Option
	Processes  []Process
	Files      []*File // by rising FID
	Subs       []*Sub  // in the order of the file
	Calls      *Call   // the root of the call tree: no sub, no time; nil without SUB_RETURNs

	// Sampled says that lines and subs share out the same time, as in the files
	// that gotach writes. Perl measures subs and statements on their own.
	Sampled bool
}

// A Process is one run under the profiler.
type Process struct {
	PID, Parent uint32
	Start, End  float64 // seconds since the epoch; End is 0 where the file is cut off
}

// A File is a source file or a string eval.
type File struct {
	FID               uint32
	Name              string
	EvalFID, EvalLine uint32 // where the eval was; 0 for a file
	Flags             Flags
	Size, Mtime       uint32
	Lines             map[uint32]LineTime
	Source            map[uint32]string // the lines that the file has, with newlines
}

// LineTime is what the statements of a line took.
type LineTime struct {
	Ticks int64
	Count int64 // of executions
}

// A Sub is a sub that is known or was called.
type Sub struct {
	Name        string
	FID         uint32 // 0 if there was no SUB_INFO
	First, Last uint32 // lines; 0 for one written in C
	Callers     []Caller
}

// A Caller is a place that called a sub. Times are in seconds.
type Caller struct {
	FID, Line  uint32
	Sub        string // the calling one
	Count      int64
	Incl, Excl float64
	Reci       float64 // of inner calls of a recursion, not in Incl
	Depth      uint32  // of the deepest recursion
}

// A Call is a node of the call tree: all calls of a sub along one path.
type Call struct {
	Sub        string
	Incl, Excl float64 // ticks
	Count      int64
	Calls      map[string]*Call // by Sub
}

// Attribute returns the last value of an attribute, or "".
func (d *Data) Attribute(key string) string {
	for _, a := range slices.Backward(d.Attributes) {
		if a.Key == key {
			return a.Value
		}
	}
	return ""
}

// Option returns the last value of an option, or "".
func (d *Data) Option(key string) string {
	for _, o := range slices.Backward(d.Options) {
		if o.Key == key {
			return o.Value
		}
	}
	return ""
}

// TicksPerSecond returns what all tick counts are in; 0 if the file does not
// say, and then its times mean nothing.
func (d *Data) TicksPerSecond() float64 {
	f, err := strconv.ParseFloat(d.Attribute("ticks_per_sec"), 64)
	if err != nil || !(f > 0) || f > 1<<32 {
		return 0
	}
	return f
}

// GotachInterval is an attribute that only files of gotach have.
const GotachInterval = "x-gotach-interval-ns"

// Incl, Excl and Count sum over all callers.
func (s *Sub) Incl() (seconds float64) {
	for i := range s.Callers {
		seconds += s.Callers[i].Incl
	}
	return seconds
}

// Excl is the time in the sub itself.
func (s *Sub) Excl() (seconds float64) {
	for i := range s.Callers {
		seconds += s.Callers[i].Excl
	}
	return seconds
}

// Count is the number of calls.
func (s *Sub) Count() (calls int64) {
	for i := range s.Callers {
		calls += s.Callers[i].Count
	}
	return calls
}

// add adds the times and calls of src, whose Calls become c's. Trees can be as
// deep as a file is long, so this does not recurse.
func (c *Call) add(src *Call) {
	type pair struct{ dst, src *Call }
	for todo := []pair{{c, src}}; len(todo) > 0; {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		p.dst.Incl += p.src.Incl
		p.dst.Excl += p.src.Excl
		p.dst.Count += p.src.Count
		if len(p.dst.Calls) == 0 {
			p.dst.Calls = p.src.Calls
			continue
		}
		for name, s := range p.src.Calls {
			if d := p.dst.Calls[name]; d != nil {
				todo = append(todo, pair{d, s})
			} else {
				p.dst.Calls[name] = s
			}
		}
	}
}

// adopt adds calls to those below c.
func (c *Call) adopt(calls map[string]*Call) {
	c.add(&Call{Calls: calls})
}

// Sorted returns the calls below c by name, for an order that does not change.
func (c *Call) Sorted() []*Call {
	return slices.SortedFunc(maps.Values(c.Calls), func(a, b *Call) int { return cmp.Compare(a.Sub, b.Sub) })
}
