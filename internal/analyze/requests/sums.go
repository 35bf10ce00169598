package requests

import (
	"cmp"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/cores"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/syntax"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// requestSums add up what the slow requests do and what the median ones do.
type requestSums struct {
	*finder
	class []uint8 // by request: bits classMedian, classSlow
	shown map[int32]int
	lines [][timelineColumns][3]uint64
	rows  map[requestRow]*requestRowSums
	ends  *locks.FarEnds
	again repeats
}

type requestRowSums struct {
	time  [2]uint64 // of median and slow requests, µs
	slow  uint64    // as lines and in have it
	lines map[int32]uint64
	in    map[string]uint64
	ran   map[string]float64 // of slow requests: µs, by who had the cores meanwhile
}

type requestRow struct {
	name, file string
	line       int32
	state      string
	peer       string
}

const classMedian, classSlow = 1, 2

// classify finds the requests that are slow and those that are near the median.
func (r *requestSums) classify(out *Requests, slowest float64) {
	var order []int32
	for i := range r.list.Len {
		if x := r.list.At(i); !x.open && !x.dropped && !x.aside && !(x.joined && r.o.Func == nil) {
			order = append(order, i)
		}
	}
	length := func(n int32) uint64 { return r.list.At(n).length() }
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(length(a), length(b)), cmp.Compare(a, b)) })
	r.class, r.shown = make([]uint8, r.list.Len), map[int32]int{}
	n := len(order)
	median := order[2*n/5 : n-2*n/5]
	slow := order[n-min(n, max(1, int(slowest*float64(out.Count)))):]
	mark := func(list []int32, class uint8, into *Group) {
		into.Count, into.States = len(list), map[string]time.Duration{}
		if len(list) > 0 {
			into.From = analyze.Micros(length(list[0]))
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
		x := r.list.At(n)
		r.shown[n] = len(out.Slowest)
		out.Slowest = append(out.Slowest, Request{Goroutine: x.goroutine, Start: (x.before + x.first) / 2, Time: analyze.Micros(length(n)), Labels: map[string]string{}})
	}
	r.lines = make([][timelineColumns][3]uint64, len(out.Slowest))
}

// slowRate sets how many requests a second are slow. That needs no number of all.
func (r *requestSums) slowRate(out *Requests) error {
	length, err := r.Length()
	if err != nil || length == 0 || out.Seen == 0 {
		return err
	}
	out.SlowOver = max(out.Slow.From, 2*out.Short)
	n := 0
	for _, x := range r.ended {
		n += analyze.Int(analyze.Micros(x) >= out.SlowOver)
	}
	out.SlowPerSecond = float64(n) / analyze.Micros(length).Seconds()
	return nil
}

// add adds a sample of a request.
func (r *requestSums) add(s *analyze.Sample, number int32, out *Requests) {
	if x := r.list.At(number); !x.dropped && !x.aside && !(x.joined && r.o.Func == nil) {
		r.repeat(s, number)
	}
	class := r.class[number]
	if class == 0 {
		return
	}
	row := requestRow{state: r.Source.State(s.Status, s.Stack)}
	line, in := int32(0), ""
	if s.Stack != 0 && analyze.Waits(s.Status) {
		row.peer = r.ends.Of(s.Stack)
	}
	if f := r.ProgramFrameAbove(s.Stack, r.below(s.Stack)); f != nil {
		row.name, row.file, line = f.Func, f.File, f.Line
		if analyze.Waits(s.Status) {
			row.line = line
		}
		if in = r.inner(s.Stack, !analyze.Waits(s.Status)); in == f.Func {
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
			sums.time[i] += s.At - s.Begin()
		}
	}
	if class&classSlow != 0 {
		sums.slow += s.At - s.Begin()
		sums.lines[line] += s.At - s.Begin()
		sums.in[in] += s.At - s.Begin()
		if r.cores != nil && cores.Waits(s.Sample) {
			if sums.ran == nil {
				sums.ran = map[string]float64{}
			}
			r.cores.Charge(s.Sample, func(name string, t float64) { sums.ran[name] += t })
		}
	}
	at, ok := r.shown[number]
	if !ok {
		return
	}
	if s.Labels != nil && len(out.Slowest[at].Labels) == 0 {
		out.Slowest[at].Labels = s.Labels.Map()
	}
	r.draw(s, r.list.At(number), &r.lines[at])
}

// draw adds a sample to the timeline of its request.
func (r *requestSums) draw(s *analyze.Sample, x *request, line *[timelineColumns][3]uint64) {
	kind := 2
	switch analyze.StateOf(s.Status) {
	case analyze.OnCPU:
		kind = 0
	case analyze.NoCore, analyze.Runnable:
		kind = 1
	}
	length := max(1, x.last-x.before)
	column := func(t uint64) uint64 {
		return min((max(t, x.before)-x.before)*timelineColumns/length, timelineColumns-1)
	}
	first, last := column(s.Begin()), column(s.At-min(1, s.At))
	for i := first; i <= last; i++ {
		from, to := x.before+i*length/timelineColumns, x.before+(i+1)*length/timelineColumns
		if begin, end := max(from, s.Begin()), min(to, s.At); begin < end {
			line[i][kind] += end - begin
		}
	}
}

// below returns the stack below the request's function.
func (r *requestSums) below(stack uint32) uint32 {
	if r.o.Label != "" {
		return 0
	}
	return r.calledAs.List[r.anchor(stack)].below
}

// inner returns the innermost function of a stack, without the standard library unless all is set.
func (r *requestSums) inner(stack uint32, all bool) string {
	least := profile.ModuleCode
	if all {
		least = profile.LowestCode
	}
	for at := stack; at != 0; at = r.Caller(at) {
		if r.CodeOf(at) >= least {
			return r.Leaf(at).Func
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

// shares returns who had the cores, the most time first, at most mostRan.
func shares(ran map[string]float64) (list []Ran) {
	for name, t := range ran {
		list = append(list, Ran{name, t})
	}
	slices.SortFunc(list, func(a, b Ran) int { return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name)) })
	all := 0.0
	for _, r := range list { // in one order, so that the sum is the same each time
		all += r.Share
	}
	list = list[:min(mostRan, len(list))]
	for i := range list {
		list[i].Share /= all
	}
	return list
}

// result sets the averages, the difference and the timelines.
func (r *requestSums) result(out *Requests) {
	out.Repeats, out.Waits = r.again.result(), r.again.sums
	groups := [2]*Group{&out.Median, &out.Slow}
	for row, sums := range r.rows {
		var mean [2]time.Duration
		for i, g := range groups {
			if g.Count > 0 {
				mean[i] = analyze.Micros(sums.time[i]) / time.Duration(g.Count)
			}
			if mean[i] > 0 {
				g.States[row.state] += mean[i]
			}
		}
		d := Difference{Name: row.name, File: row.file, State: row.state, Peer: row.peer, Time: mean[1] - mean[0]}
		d.Line, _ = most(sums.lines)
		if row.line > 0 {
			d.Line = row.line
		}
		if in, time := most(sums.in); 2*time >= sums.slow {
			d.In = in
		}
		d.Ran = shares(sums.ran)
		out.Difference = append(out.Difference, d)
	}
	slices.SortFunc(out.Difference, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Line, b.Line), cmp.Compare(a.State, b.State), cmp.Compare(a.File, b.File), cmp.Compare(a.Peer, b.Peer))
	})
	sources := syntax.NewSources(r.o.Source)
	for i := range out.Difference[:min(mostObjects, len(out.Difference))] {
		d := &out.Difference[i]
		if kind := stream.WaitKind(d.State); kind != "" {
			d.Object = sources.Expression(&tachyon.Frame{File: d.File, Func: d.Name, Line: d.Line}, kind, d.State)
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
