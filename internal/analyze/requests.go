package analyze

import (
	"cmp"
	"errors"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// RequestOptions say what a request is. The zero value finds HTTP handlers, else gRPC handlers, else
// tests.
type RequestOptions struct {
	Func    *regexp.Regexp // a request is an invocation of a function whose name matches
	Label   string         // a request is the time in which goroutines have one value of this label
	Slowest float64        // share of the requests that are slow; 0 is 0.01
	// Source is as in LockOptions.
	Source func(name string) *source.File
}

// Requests are the requests of a profile. An invocation is the longest run of a goroutine's samples in
// which the same call of the function is on the stack: the outermost frame that matches, with the same
// stack below it. Requests of an HTTP/1 connection that follow at once are told apart. Other calls with
// no sample between them look like one.
type Requests struct {
	What       string `json:"what"`
	Count      int    `json:"count"`              // requests that ended and have a sample, with those that are too short
	Estimated  int    `json:"estimated"`          // the same with those that have no sample, as far as that can be known
	AtLeast    bool   `json:"at_least,omitempty"` // there are more than Estimated: so short that their number is not known
	TooShort   int    `json:"too_short"`          // seen at one tick only; such requests have mostly no sample at all
	Unfinished int    `json:"unfinished"`         // requests that last at the end of the profile; not counted
	// Idle is the idle time of goroutines that have the label, but work in the background, such as those of a connection
	// that was made for a request and outlives it. It is in no request.
	Idle time.Duration `json:"idle_ns"`
	RequestLengths
	Short time.Duration `json:"short_ns"` // usual time between two samples: a shorter length is not known
	// Lower is not nil if calls may have followed each other with no sample between them: then it has the
	// lengths if each wait at a place where the goroutine has waited before is another call.
	Lower     *RequestLengths `json:"lower,omitempty"`
	Histogram []RequestBucket `json:"histogram"`
	Median    RequestGroup    `json:"median"` // those from the 40th percentile to the 60th
	Slow      RequestGroup    `json:"slow"`
	// Difference is what a slow request takes more than a median one, on average, the most first.
	Difference []RequestDifference `json:"difference"`
	Slowest    []Request           `json:"slowest"`
}

// RequestLengths are estimated from all requests: of one request the length is known only as exactly as
// the ticks are frequent. Max is that of the longest request, in the middle of what is possible.
type RequestLengths struct {
	P50 time.Duration `json:"p50_ns"`
	P90 time.Duration `json:"p90_ns"`
	P99 time.Duration `json:"p99_ns"`
	Max time.Duration `json:"max_ns"`
}

// A RequestBucket counts requests of From to twice that.
type RequestBucket struct {
	From  time.Duration `json:"from_ns"`
	Count int           `json:"count"`
}

// A RequestGroup is what requests do, on average.
type RequestGroup struct {
	Count  int                      `json:"count"`
	From   time.Duration            `json:"from_ns"` // length of the shortest
	States map[string]time.Duration `json:"states"`  // time of all its goroutines, for each request
}

// A RequestDifference is the time in one function and state. The function is the innermost one of the
// program's own code, or of a module if the request has none. If the state is a wait, it is the time at one
// line; else Line is the one with the most time.
type RequestDifference struct {
	Name  string        `json:"name"`
	File  string        `json:"file,omitempty"`
	Line  int32         `json:"line,omitempty"`
	State string        `json:"state"`
	Time  time.Duration `json:"ns"`
	// In is the innermost function of modules, or of all on a CPU, that slow requests are in for at least half of
	// this time. It is "" if that is the same function or there is none.
	In string `json:"in,omitempty"`
	// Object is the text of the lock or channel that the line waits for, such as "c.mu". Only the first
	// rows have it, if the source is here.
	Object string `json:"object,omitempty"`
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
	mostObjects     = 20 // rows of the difference that have an object
	timelineColumns = 30
)

// FindRequests finds the requests of a profile. It reads the samples twice.
func FindRequests(s *Samples, o RequestOptions) (*Requests, error) {
	r, out, err := readRequests(s, &o)
	if err != nil {
		return nil, err
	}
	f := r.finder
	again := newFinder(s, o)
	again.splits = false
	for x, err := range s.all() {
		n := int32(-1)
		if err == nil {
			n, err = again.add(x)
		}
		if err != nil {
			return nil, err
		}
		if n >= 0 && n < f.list.len {
			r.add(x, n, out)
		}
	}
	r.result(out)
	return out, nil
}

// readRequests finds the requests, and which of them are slow. It reads the samples once.
func readRequests(s *Samples, o *RequestOptions) (*requestSums, *Requests, error) {
	if o.Slowest == 0 {
		o.Slowest = 0.01
	}
	if o.Func != nil && o.Label != "" {
		return nil, nil, errors.New("a request is either an invocation or a label's time, not both")
	}
	f := newFinder(s, *o)
	for x, err := range s.all() {
		if err == nil {
			_, err = f.add(x)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	f.finish()
	out := f.summary()
	r := &requestSums{finder: f, rows: map[requestRow]*requestRowSums{}}
	r.classify(out, o.Slowest)
	f.parts, f.reads, f.calls, f.lives = requestList{}, requestList{}, states[call]{}, lives{} // for the second reading, that memory is needed
	return r, out, nil
}

// summary returns the counts and the percentiles.
func (f *finder) summary() *Requests {
	out := &Requests{What: f.what(), Histogram: []RequestBucket{}, Difference: []RequestDifference{}, Slowest: []Request{}, Idle: micros(f.behind)}
	for r := range f.list.all() {
		if r.open {
			out.Unfinished++
		}
	}
	list := f.lengths()
	out.Count = len(list)
	if out.Count == 0 {
		return out
	}
	l := estimate(list)
	// What the lengths explain is fewer requests than there were if most are much shorter than a tick.
	if more := float64(f.unseen) - float64(max(0, len(list)-len(f.list.ended()))) - (l.all - float64(len(list))); more > l.all/50 {
		l.more, out.AtLeast = more, true
	}
	out.RequestLengths, out.Short = l.percentiles(list), micros(l.short)
	out.Estimated = max(out.Count, int(math.Round(l.all+l.more)))
	if parts := f.parts.ended(); len(parts) > out.Count {
		lower := estimate(parts).percentiles(parts)
		for _, p := range [][2]time.Duration{{lower.P50, out.P50}, {lower.P90, out.P90}, {lower.P99, out.P99}} {
			if p[1]-p[0] > max(p[1]/10, out.Short) {
				out.Lower = &lower
			}
		}
	}
	all := make([]uint64, len(list))
	for i, x := range list {
		if all[i] = x.length(); 2*all[i] < 3*l.short {
			out.TooShort++
		}
	}
	slices.Sort(all)
	for from := max(1, l.short); ; from *= 2 {
		n, _ := slices.BinarySearch(all, 2*from)
		if n > 0 || len(out.Histogram) > 0 {
			out.Histogram = append(out.Histogram, RequestBucket{micros(from), n})
		}
		if all = all[n:]; len(all) == 0 {
			return out
		}
	}
}

func micros(us uint64) time.Duration { return time.Duration(us) * time.Microsecond }

// requestSums add up what the slow requests do and what the median ones do.
type requestSums struct {
	*finder
	class []uint8 // by request: bits classMedian, classSlow
	shown map[int32]int
	lines [][timelineColumns][3]uint64
	rows  map[requestRow]*requestRowSums
}

type requestRowSums struct {
	time  [2]uint64 // of median and slow requests, µs
	slow  uint64    // as lines and in have it
	lines map[int32]uint64
	in    map[string]uint64
}

type requestRow struct {
	name, file string
	line       int32
	state      string
}

const classMedian, classSlow = 1, 2

// classify finds the requests that are slow and those that are near the median.
func (r *requestSums) classify(out *Requests, slowest float64) {
	var order []int32
	for i := range r.list.len {
		if x := r.list.at(i); !x.open && !x.dropped {
			order = append(order, i)
		}
	}
	length := func(n int32) uint64 { return r.list.at(n).length() }
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(length(a), length(b)), cmp.Compare(a, b)) })
	r.class, r.shown = make([]uint8, r.list.len), map[int32]int{}
	n := len(order)
	median := order[2*n/5 : n-2*n/5]
	slow := order[n-min(n, int(math.Ceil(slowest*float64(n)))):]
	mark := func(list []int32, class uint8, into *RequestGroup) {
		into.Count, into.States = len(list), map[string]time.Duration{}
		if len(list) > 0 {
			into.From = micros(length(list[0]))
		}
		for _, n := range list {
			r.class[n] |= class
		}
	}
	mark(median, classMedian, &out.Median)
	mark(slow, classSlow, &out.Slow)
	for _, n := range slices.Backward(slow) {
		if len(out.Slowest) == mostSlowest {
			break
		}
		x := r.list.at(n)
		r.shown[n] = len(out.Slowest)
		out.Slowest = append(out.Slowest, Request{Goroutine: x.goroutine, Start: (x.before + x.first) / 2, Time: micros(length(n)), Labels: map[string]string{}})
	}
	r.lines = make([][timelineColumns][3]uint64, len(out.Slowest))
}

// add adds a sample of a request.
func (r *requestSums) add(s *sample, number int32, out *Requests) {
	class := r.class[number]
	if class == 0 {
		return
	}
	row := requestRow{state: r.src.State(s.Status, s.Stack)}
	line, in := int32(0), ""
	if f := r.ownAbove(s.Stack, r.below(s.Stack)); f != nil {
		row.name, row.file, line = f.Func, f.File, f.Line
		if waits(s.Status) {
			row.line = line
		}
		if in = r.inner(s.Stack, !waits(s.Status)); in == f.Func {
			in = ""
		}
	}
	sums := r.rows[row]
	if sums == nil {
		sums = &requestRowSums{lines: map[int32]uint64{}, in: map[string]uint64{}}
		r.rows[row] = sums
	}
	for i, c := range []uint8{classMedian, classSlow} {
		if class&c != 0 {
			sums.time[i] += s.time - s.begin()
		}
	}
	if class&classSlow != 0 {
		sums.slow += s.time - s.begin()
		sums.lines[line] += s.time - s.begin()
		sums.in[in] += s.time - s.begin()
	}
	at, ok := r.shown[number]
	if !ok {
		return
	}
	if s.Labels != nil && len(out.Slowest[at].Labels) == 0 {
		out.Slowest[at].Labels = s.Labels.Map()
	}
	kind := 2
	switch kindOf(s.Status) {
	case kindCPU:
		kind = 0
	case kindNoCore, kindRunnable:
		kind = 1
	}
	x := r.list.at(number)
	length := max(1, x.last-x.before)
	column := func(t uint64) uint64 {
		return min((max(t, x.before)-x.before)*timelineColumns/length, timelineColumns-1)
	}
	first, last := column(s.begin()), column(s.time-min(1, s.time))
	for i := first; i <= last; i++ {
		from, to := x.before+i*length/timelineColumns, x.before+(i+1)*length/timelineColumns
		if begin, end := max(from, s.begin()), min(to, s.time); begin < end {
			r.lines[at][i][kind] += end - begin
		}
	}
}

// below returns the stack below the request's function.
func (r *requestSums) below(stack uint32) uint32 {
	if r.o.Label != "" {
		return 0
	}
	return r.calledAs[r.anchor(stack)].below
}

// inner returns the innermost function of a stack, without the standard library unless all is set.
func (r *requestSums) inner(stack uint32, all bool) string {
	least := profile.ModuleCode
	if all {
		least = profile.LowestCode
	}
	for at := stack; at != 0; at = r.caller(at) {
		if r.codeOf(at) >= least {
			return r.leaf(at).Func
		}
	}
	return ""
}

// most returns the key with the most time, and the time.
func most[K cmp.Ordered](times map[K]uint64) (key K, time uint64) {
	for k, t := range times {
		if t > time || t == time && k < key {
			key, time = k, t
		}
	}
	return key, time
}

// result sets the averages, the difference and the timelines.
func (r *requestSums) result(out *Requests) {
	groups := [2]*RequestGroup{&out.Median, &out.Slow}
	for row, sums := range r.rows {
		var mean [2]time.Duration
		for i, g := range groups {
			if g.Count > 0 {
				mean[i] = micros(sums.time[i]) / time.Duration(g.Count)
			}
			if mean[i] > 0 {
				g.States[row.state] += mean[i]
			}
		}
		d := RequestDifference{Name: row.name, File: row.file, State: row.state, Time: mean[1] - mean[0]}
		d.Line, _ = most(sums.lines)
		if row.line > 0 {
			d.Line = row.line
		}
		if in, time := most(sums.in); 2*time >= sums.slow {
			d.In = in
		}
		out.Difference = append(out.Difference, d)
	}
	slices.SortFunc(out.Difference, func(a, b RequestDifference) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Line, b.Line), cmp.Compare(a.State, b.State), cmp.Compare(a.File, b.File))
	})
	sources := newSources(r.o.Source)
	for i := range out.Difference[:min(mostObjects, len(out.Difference))] {
		d := &out.Difference[i]
		if kind := stream.WaitKind(d.State); kind != "" {
			d.Object = sources.expression(&tachyon.Frame{File: d.File, Func: d.Name, Line: d.Line}, kind, d.State)
		}
	}
	for i := range r.lines {
		line := make([]byte, timelineColumns)
		for j, sums := range r.lines[i] {
			line[j] = ' '
			if j > 0 {
				line[j] = line[j-1] // it has ended, or no sample is of this time
			}
			for kind, most := 0, uint64(0); kind < len(sums); kind++ {
				if sums[kind] > most {
					line[j], most = "Rr."[kind], sums[kind]
				}
			}
		}
		out.Slowest[i].Timeline = string(line)
	}
}
