// Package cores says who had the cores while goroutines waited for one.
package cores

import (
	"maps"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// Names of those that are no goroutines of the program.
const (
	Others  = "[other programs]" // the kernel gave them the core on which a goroutine ran
	Quota   = "[CPU quota]"      // it stopped the program, for at least a hundredth of the session
	Free    = "[free cores]"     // cores had more time to spare than goroutines waited: a goroutine takes a moment until it runs
	Runtime = "[Go runtime]"     // its own goroutines, such as those of the garbage collector
	Rest    = "[others of the program]"
)

const (
	// mostNames bounds the memory of those that ran, half a MB each. Further ones are Rest.
	mostNames = 64
	// mostValues is the number of values of a label beyond which it does not name who ran, such as
	// the number of a request.
	mostValues = 16
	// mostParts is the number of parts of the time.
	mostParts = 1 << 16
	// fullShare is the part of the cores that are in use from which on they are all taken: what is
	// known of an instant is rough.
	fullShare = 0.75
	// throttledShare is the part of a session for which the quota stopped the program, from which
	// on goroutines have no core because of it.
	throttledShare = 0.01
)

// Cores says who had the cores at each time. The time is divided into parts of at least the usual
// time between two ticks. In each, those that ran share the time of those that were runnable, also
// those that ran without a core: they kept the others from the Go scheduler's processors. While
// more goroutines wait than cores are known to be free, none is.
type Cores struct {
	src   *stream.Source
	start uint64
	width float64 // of a part, µs
	cores float64
	quota bool

	names  []runner
	number map[string]int            // by runner.key
	sets   map[*stream.Labels]string // texts of sets of labels
	values map[string]map[string]bool
	roots  []string  // by stack
	queue  []float64 // µs by part, in which goroutines were runnable

	final []string // names, after Finish
}

// A runner is who had cores.
type runner struct {
	labels map[string]string
	name   string    // without labels
	used   []float64 // µs by part in which it ran; after Finish the sum of shares up to the part
}

// New returns a Cores to which all samples of a source must be added, which has
// stream.Options.Labels.
func New(src *stream.Source) *Cores {
	c := &Cores{
		src: src, start: src.Header().Start, cores: 1, number: map[string]int{}, sets: map[*stream.Labels]string{}, values: map[string]map[string]bool{},
	}
	width, end := max(1000, float64(src.Header().Interval)), float64(src.End())
	if s := src.Metadata().Session; s != nil {
		if s.RateReached > 0 {
			width = max(width, 1e6/s.RateReached)
		}
		end = max(end, float64(s.Duration.Microseconds()))
		c.cores = max(1, float64(s.GOMAXPROCS))
		c.quota = float64(s.Throttled) >= throttledShare*float64(max(s.Duration, s.ThrottledOf)) && s.Throttled > 0
	}
	c.width = max(width, end/mostParts)
	return c
}

// Waits reports whether a sample is of a goroutine that waits for a core: it is runnable, or runs
// and the kernel gives it none.
func Waits(s *stream.Sample) bool {
	if s.NotSeen || s.Interpreter != tachyon.User {
		return false
	}
	state := analyze.StateOf(s.Status)
	return state == analyze.Runnable || state == analyze.NoCore
}

// Add adds a sample.
func (c *Cores) Add(s *stream.Sample) {
	if s.NotSeen {
		return
	}
	switch analyze.StateOf(s.Status) {
	case analyze.OnCPU, analyze.NoCore:
		c.spread(s, &c.names[c.runner(s)].used)
	case analyze.Runnable:
		c.spread(s, &c.queue)
	}
}

// spread adds the time of a sample to the parts in which it was.
func (c *Cores) spread(s *stream.Sample, into *[]float64) {
	begin, end := c.span(s)
	for i := int(begin / c.width); float64(i)*c.width < end && i <= mostParts; i++ {
		for i >= len(*into) {
			*into = append(*into, 0)
		}
		(*into)[i] += min(end, float64(i+1)*c.width) - max(begin, float64(i)*c.width)
	}
}

// span returns the time for which a sample stands, in µs since the start.
func (c *Cores) span(s *stream.Sample) (begin, end float64) {
	end = float64(max(0, int64(s.Time-c.start)))
	return max(0, end-float64(s.Wall.Microseconds())), end
}

// runner returns the number of who ran.
func (c *Cores) runner(s *stream.Sample) int {
	key, name := "", ""
	switch {
	case s.Interpreter == tachyon.Runtime:
		name = Runtime
	case s.Interpreter > tachyon.Runtime:
		name = c.row(s.Stack)
	case s.Labels != nil:
		if key = c.labels(s.Labels); key == "" {
			name = c.root(s.Stack)
		}
	default:
		name = c.root(s.Stack)
	}
	if key == "" {
		key = "\x00" + name
	}
	n, ok := c.number[key]
	if ok {
		return n
	}
	r := runner{name: name}
	if s.Labels != nil && name == "" {
		r.labels = s.Labels.Map()
	}
	if len(c.names) == mostNames {
		key, r = "\x00"+Rest, runner{name: Rest}
		if n, ok = c.number[key]; ok {
			return n
		}
	}
	n = len(c.names)
	c.names, c.number[key] = append(c.names, r), n
	return n
}

// labels returns a text for the labels that name who ran, "" if none does.
func (c *Cores) labels(l *stream.Labels) string {
	text, ok := c.sets[l]
	if !ok {
		set := l.Map()
		for k, v := range set {
			if c.values[k] == nil {
				c.values[k] = map[string]bool{}
			}
			if len(c.values[k]) <= mostValues {
				c.values[k][v] = true
			}
		}
		text = c.text(set)
		if len(c.sets) < 1<<14 {
			c.sets[l] = text
		}
	}
	return text
}

// text returns the labels of a set that have few values.
func (c *Cores) text(set map[string]string) string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(set)) {
		if len(c.values[k]) <= mostValues {
			words = append(words, k+"="+set[k])
		}
	}
	if len(words) == 0 {
		return ""
	}
	return "label " + strings.Join(words, " ")
}

// row returns the name of CPU time that no goroutine used: the outermost frame.
func (c *Cores) row(stack uint32) string {
	name := Runtime
	for at := stack; at != 0; at = c.src.Stacks()[at].Caller {
		name = c.src.Frames()[c.src.Stacks()[at].Frame].Func
	}
	if name == tachyon.FuncScheduler {
		return Runtime
	}
	return name
}

// root returns the outermost function of the program's own code, else the outermost one.
func (c *Cores) root(stack uint32) string {
	name := analyze.At(&c.roots, stack, len(c.src.Stacks()))
	if *name != "" {
		return *name
	}
	own, last := "", Runtime
	for at := stack; at != 0; at = c.src.Stacks()[at].Caller {
		if f := &c.src.Frames()[c.src.Stacks()[at].Frame]; f.File != "" {
			if last = profile.FuncName(f.Func); profile.CodeOf(f) == profile.ProgramCode {
				own = last
			}
		}
	}
	if own == "" {
		if own = last; strings.HasPrefix(own, "runtime.") { // the scheduler's own stack
			own = Runtime
		}
	}
	*name = own
	return own
}

// Finish says that all samples were added.
func (c *Cores) Finish() {
	parts := len(c.queue)
	for i := range c.names {
		parts = max(parts, len(c.names[i].used))
	}
	shares := map[string][]float64{}
	of := func(name string) []float64 {
		if shares[name] == nil {
			shares[name] = make([]float64, parts)
		}
		return shares[name]
	}
	used := make([]float64, parts)
	for i := range c.names {
		r := &c.names[i]
		name := r.name
		if r.labels != nil {
			if name = c.text(r.labels); name == "" { // its labels have too many values
				name = Rest
			}
		}
		sum := of(name)
		for p, t := range r.used {
			sum[p] += t
			used[p] += t
		}
	}
	for p, t := range used {
		all := c.cores * c.width
		if t >= fullShare*all {
			continue
		}
		name := Free
		switch {
		case c.quota:
			name = Quota
		case p >= len(c.queue) || c.queue[p] <= all-t:
		case t > 0:
			continue // no core is free: those that were seen to run stand for all
		default:
			name = Others
		}
		of(name)[p] += all - t
		used[p] = all
	}
	c.names, c.final = nil, slices.Sorted(maps.Keys(shares))
	for _, name := range c.final {
		sum, list := 0.0, shares[name]
		for p, t := range list { // the integral of the share, in parts
			if used[p] > 0 {
				sum += t / used[p]
			}
			list[p] = sum
		}
		c.names = append(c.names, runner{used: list})
	}
	c.queue = nil
}

// Charge divides the time of a sample that waits for a core among those that had the cores
// meanwhile. It calls use with each and its time in µs. A sample whose goroutine runs without a
// core is charged to other programs or to the quota.
func (c *Cores) Charge(s *stream.Sample, use func(name string, time float64)) {
	begin, end := c.span(s)
	all := float64(s.Wall.Microseconds())
	if analyze.StateOf(s.Status) == analyze.NoCore {
		if c.quota {
			use(Quota, all)
		} else {
			use(Others, all)
		}
		return
	}
	left := all
	for i, name := range c.final {
		if t := c.until(i, end) - c.until(i, begin); t > 0 {
			use(name, t)
			left -= t
		}
	}
	if left > all/1000 {
		use(Free, left)
	}
}

// until returns the integral of a share up to a time.
func (c *Cores) until(name int, at float64) float64 {
	list := c.names[name].used
	x := at / c.width
	i := int(x)
	if len(list) == 0 {
		return 0
	}
	if i >= len(list) {
		return list[len(list)-1] * c.width
	}
	before := 0.0
	if i > 0 {
		before = list[i-1]
	}
	return (before + (list[i]-before)*(x-float64(i))) * c.width
}
