package analyze

import (
	"cmp"
	"errors"
	"math"
	"regexp"
	"slices"
	"time"
)

// RequestOptions say what a request is. The zero value finds HTTP handlers, else gRPC handlers, else
// tests.
type RequestOptions struct {
	Func    *regexp.Regexp // a request is an invocation of a function whose name matches
	Label   string         // a request is the time in which goroutines have one value of this label
	Slowest float64        // share of the requests that are slow; 0 is 0.01
}

// Requests are the requests of a profile. An invocation is the longest run of a goroutine's samples in
// which the same call of the function is on the stack: the outermost frame that matches, with the same
// stack below it. Two calls with no sample between them look like one.
type Requests struct {
	What       string          `json:"what"`
	Count      int             `json:"count"`      // requests that ended, with those that are too short
	TooShort   int             `json:"too_short"`  // less than two ticks; such requests have mostly no sample at all
	Unfinished int             `json:"unfinished"` // requests that last at the end of the profile; not counted
	P50        time.Duration   `json:"p50_ns"`
	P90        time.Duration   `json:"p90_ns"`
	P99        time.Duration   `json:"p99_ns"`
	Max        time.Duration   `json:"max_ns"`
	Histogram  []RequestBucket `json:"histogram"`
	Median     RequestGroup    `json:"median"` // those from the 40th percentile to the 60th
	Slow       RequestGroup    `json:"slow"`
	// Difference is what a slow request takes more than a median one, on average, the most first.
	Difference []RequestDifference `json:"difference"`
	Slowest    []Request           `json:"slowest"`
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
// program's own code.
type RequestDifference struct {
	Name  string        `json:"name"`
	State string        `json:"state"`
	Time  time.Duration `json:"ns"`
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
	timelineColumns = 30
)

// FindRequests finds the requests of a profile. It reads the samples twice.
func FindRequests(s *Samples, o RequestOptions) (*Requests, error) {
	if o.Slowest == 0 {
		o.Slowest = 0.01
	}
	if o.Func != nil && o.Label != "" {
		return nil, errors.New("a request is either an invocation or a label's time, not both")
	}
	f := newFinder(s, o)
	for x, err := range s.all() {
		if err != nil {
			return nil, err
		}
		f.add(x)
	}
	f.finish()
	out := f.summary()
	r := &requestSums{finder: f, rows: map[requestRow]*[2]uint64{}, names: map[uint32]string{}}
	r.classify(out, o.Slowest)
	again := newFinder(s, o)
	for x, err := range s.all() {
		if err != nil {
			return nil, err
		}
		if n := again.add(x); n >= 0 && int(n) < len(f.list) {
			r.add(x, n, out)
		}
	}
	r.result(out)
	return out, nil
}

// summary returns the counts and the percentiles.
func (f *finder) summary() *Requests {
	out := &Requests{What: f.what(), Histogram: []RequestBucket{}, Difference: []RequestDifference{}, Slowest: []Request{}}
	short := 2 * f.interval()
	var lengths []uint64
	for i := range f.list {
		switch x := &f.list[i]; {
		case x.open:
			out.Unfinished++
		case !x.dropped:
			lengths = append(lengths, x.end-x.begin)
			if x.end-x.begin < short {
				out.TooShort++
			}
		}
	}
	out.Count = len(lengths)
	if out.Count == 0 {
		return out
	}
	slices.Sort(lengths)
	out.P50, out.P90, out.P99 = micros(quantile(lengths, 0.5)), micros(quantile(lengths, 0.9)), micros(quantile(lengths, 0.99))
	out.Max = micros(lengths[len(lengths)-1])
	for from := short / 2; ; from *= 2 {
		n, _ := slices.BinarySearch(lengths, 2*from)
		if n > 0 || len(out.Histogram) > 0 {
			out.Histogram = append(out.Histogram, RequestBucket{micros(from), n})
		}
		if lengths = lengths[n:]; len(lengths) == 0 {
			return out
		}
	}
}

func micros(us uint64) time.Duration { return time.Duration(us) * time.Microsecond }

// quantile returns a quantile of sorted values: the least one that a share q does not exceed.
func quantile(sorted []uint64, q float64) uint64 {
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(q*float64(len(sorted))))-1))]
}

// requestSums add up what the slow requests do and what the median ones do.
type requestSums struct {
	*finder
	class []uint8 // by request: bits classMedian, classSlow
	shown map[int32]int
	lines [][timelineColumns][3]uint64
	rows  map[requestRow]*[2]uint64 // µs
	names map[uint32]string         // by stack
}

type requestRow struct{ name, state string }

const classMedian, classSlow = 1, 2

// classify finds the requests that are slow and those that are near the median.
func (r *requestSums) classify(out *Requests, slowest float64) {
	var order []int32
	for i := range r.list {
		if x := &r.list[i]; !x.open && !x.dropped {
			order = append(order, int32(i))
		}
	}
	length := func(n int32) uint64 { return r.list[n].end - r.list[n].begin }
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(length(a), length(b)), cmp.Compare(a, b)) })
	r.class, r.shown = make([]uint8, len(r.list)), map[int32]int{}
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
		x := &r.list[n]
		r.shown[n] = len(out.Slowest)
		out.Slowest = append(out.Slowest, Request{Goroutine: x.goroutine, Start: x.begin, Time: micros(length(n)), Labels: map[string]string{}})
	}
	r.lines = make([][timelineColumns][3]uint64, len(out.Slowest))
}

// add adds a sample of a request.
func (r *requestSums) add(s *sample, number int32, out *Requests) {
	class := r.class[number]
	if class == 0 {
		return
	}
	name, ok := r.names[s.Stack]
	if !ok {
		if f := r.own(s.Stack); f != nil {
			name = f.Func
		}
		r.names[s.Stack] = name
	}
	row := requestRow{name, stateName(s.Status, r.leaf(s.Stack))}
	sums := r.rows[row]
	if sums == nil {
		sums = new([2]uint64)
		r.rows[row] = sums
	}
	for i, c := range []uint8{classMedian, classSlow} {
		if class&c != 0 {
			sums[i] += s.time - s.begin()
		}
	}
	at, ok := r.shown[number]
	if !ok {
		return
	}
	if s.Labels != nil && len(out.Slowest[at].Labels) == 0 {
		out.Slowest[at].Labels = s.Labels.Set
	}
	kind := 2
	switch kindOf(s.Status) {
	case kindCPU:
		kind = 0
	case kindNoCore, kindRunnable:
		kind = 1
	}
	x := &r.list[number]
	length := max(1, x.end-x.begin)
	column := func(t uint64) uint64 {
		return min((max(t, x.begin)-x.begin)*timelineColumns/length, timelineColumns-1)
	}
	first, last := column(s.begin()), column(s.time-min(1, s.time))
	for i := first; i <= last; i++ {
		from, to := x.begin+i*length/timelineColumns, x.begin+(i+1)*length/timelineColumns
		if begin, end := max(from, s.begin()), min(to, s.time); begin < end {
			r.lines[at][i][kind] += end - begin
		}
	}
}

// result sets the averages, the difference and the timelines.
func (r *requestSums) result(out *Requests) {
	groups := [2]*RequestGroup{&out.Median, &out.Slow}
	for row, sums := range r.rows {
		var mean [2]time.Duration
		for i, g := range groups {
			if g.Count > 0 {
				mean[i] = micros(sums[i]) / time.Duration(g.Count)
			}
			if mean[i] > 0 {
				g.States[row.state] += mean[i]
			}
		}
		out.Difference = append(out.Difference, RequestDifference{row.name, row.state, mean[1] - mean[0]})
	}
	slices.SortFunc(out.Difference, func(a, b RequestDifference) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Name, b.Name), cmp.Compare(a.State, b.State))
	})
	for i := range r.lines {
		line := make([]byte, timelineColumns)
		for j, sums := range r.lines[i] {
			line[j] = ' '
			for kind, most := 0, uint64(0); kind < len(sums); kind++ {
				if sums[kind] > most {
					line[j], most = "Rr."[kind], sums[kind]
				}
			}
		}
		out.Slowest[i].Timeline = string(line)
	}
}
