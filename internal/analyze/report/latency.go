package report

import (
	"iter"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// A latency divides the time on the wall clock among the samples, as perf report --latency does:
// what is on a CPU at an instant shares that instant. If nothing is, goroutines that wait or could
// run share it, without those that are idle or set apart. Waits for a lock or a WaitGroup count
// only if nothing else waits: who has the lock does something too, and that is what they wait for.
// If there are none either, the instant is idle. So all shares add up to the length of the profile,
// and the greatest is what to make faster so that the program ends sooner. CPU time of no goroutine
// counts for nothing.
//
// Time is divided into parts of at least a tick. In each, on a CPU or not, all samples have one
// factor.
type latency struct {
	src    *stream.Source
	idle   *idle.Idle // finished
	apart  *apart     // nil: nothing is
	start  uint64
	end    uint64    // µs since start
	width  uint64    // of a part, µs
	run    occupancy // goroutines on a CPU
	wait   occupancy // goroutines that wait or could run
	locked occupancy // goroutines that wait for others to give back a lock or to end
	unused float64   // µs in which no goroutine had anything to do
}

// maxParts bounds the memory of a latency, 48 bytes each.
const maxParts = 1 << 20

// funcIdle is the frame of time in which no goroutine had anything to do.
const funcIdle = "[idle]"

// newLatency reads the samples to know how many do what at each instant. If idles is nil, it reads
// them before that to know what is idle.
func newLatency(src *stream.Source, o Options, idles *idle.Idle, a *apart) (*latency, error) {
	var err error
	if idles == nil {
		if idles, err = idle.Read(src, o.Source); err != nil {
			return nil, err
		}
	}
	l := &latency{src: src, idle: idles, apart: a, start: src.Header().Start}
	l.end = max(1, src.End())
	if m := src.Metadata().Session; m != nil {
		l.end = max(l.end, uint64(m.Duration.Microseconds()))
	}
	l.width = max(1000, src.Header().Interval)
	for l.end/l.width >= maxParts {
		l.width *= 2
	}
	parts := int((l.end + l.width - 1) / l.width)
	l.run, l.wait, l.locked = newOccupancy(parts, l.width), newOccupancy(parts, l.width), newOccupancy(parts, l.width)
	err = l.each(func(s *stream.Sample, begin, end uint64, into *occupancy) bool {
		into.add(begin, end)
		return true
	})
	l.factors()
	return l, err
}

// each calls use with the samples that count, until it returns false: with the time of each, in µs
// since start, and with run, wait or locked, which it is in.
func (l *latency) each(use func(s *stream.Sample, begin, end uint64, in *occupancy) bool) error {
	again := l.idle.Again()
	for s, err := range l.src.Samples() {
		if err != nil {
			return err
		}
		key := again.Add(s)
		if s.NotSeen || s.Interpreter > tachyon.Runtime || l.idle.Is(key) || l.apart.ofSample(s) != NotApart || analyze.IsGap(leafOf(l.src, s.Stack)) {
			continue
		}
		in := &l.wait
		switch kind := stream.WaitKind(analyze.Reason(leafOf(l.src, s.Stack))); {
		case s.Status&tachyon.OnCPU != 0:
			in = &l.run
		case analyze.Waits(s.Status) && (analyze.IsLock(kind) || kind == tachyon.ObjectWaitGroup):
			in = &l.locked
		}
		end := min(uint64(max(0, int64(s.Time-l.start))), l.end)
		begin := end - min(end, uint64(s.Wall.Microseconds()))
		if begin < end && !use(s, begin, end, in) {
			return nil
		}
	}
	return nil
}

// factors makes of the number of goroutines in each part the factor of their samples.
func (l *latency) factors() {
	l.run.sum()
	l.wait.sum()
	l.locked.sum()
	for i := range l.run.parts {
		width := float64(min(l.end, uint64(i+1)*l.width) - uint64(i)*l.width)
		run, wait, locked := l.run.parts[i], l.wait.parts[i], l.locked.parts[i] // µs
		busy := min(run, width)
		left := min(wait, width-busy)
		rest := min(locked, width-busy-left)
		l.unused += width - busy - left - rest
		l.run.parts[i], l.wait.parts[i], l.locked.parts[i] = 0, 0, 0
		if run > 0 {
			l.run.parts[i] = busy / run
		}
		if wait > 0 {
			l.wait.parts[i] = left / wait
		}
		if locked > 0 {
			l.locked.parts[i] = rest / locked
		}
	}
	l.run.accumulate(l.end)
	l.wait.accumulate(l.end)
	l.locked.accumulate(l.end)
}

// samples yields the samples with their shares as weights, and one for the time that is idle.
func (l *latency) samples() iter.Seq2[*stream.Sample, error] {
	return func(yield func(*stream.Sample, error) bool) {
		going := true
		err := l.each(func(s *stream.Sample, begin, end uint64, in *occupancy) bool {
			s.Wall = time.Duration(1000*in.between(begin, end) + 0.5)
			going = yield(s, nil)
			return going
		})
		if err != nil {
			yield(nil, err)
			return
		}
		if going && l.unused > 0 {
			stack := l.src.Synthetic(funcIdle)
			yield(&stream.Sample{Interpreter: tachyon.Process, Stack: stack, Time: l.start + l.end, Wall: time.Duration(1000 * l.unused), NotSeen: true}, nil)
		}
	}
}

// An occupancy is goroutine time, or a factor of it, in parts of equal length.
type occupancy struct {
	width uint64 // µs
	parts []float64
	whole []float64 // differences of the number of goroutines that are there for a whole part; then sums of parts
}

func newOccupancy(parts int, width uint64) occupancy {
	return occupancy{width, make([]float64, parts), make([]float64, parts+1)}
}

// add adds a goroutine for some time.
func (o *occupancy) add(begin, end uint64) {
	first, last := begin/o.width, (end-1)/o.width
	if first == last {
		o.parts[first] += float64(end - begin)
		return
	}
	o.parts[first] += float64((first+1)*o.width - begin)
	o.parts[last] += float64(end - last*o.width)
	o.whole[first+1]++
	o.whole[last]--
}

// sum adds the goroutines that are there for a whole part.
func (o *occupancy) sum() {
	n := 0.0
	for i := range o.parts {
		n += o.whole[i]
		o.parts[i] += n * float64(o.width)
	}
}

// accumulate prepares between, when parts are factors.
func (o *occupancy) accumulate(end uint64) {
	at := 0.0
	for i, f := range o.parts {
		o.whole[i] = at
		at += f * float64(min(end, uint64(i+1)*o.width)-uint64(i)*o.width)
	}
	o.whole[len(o.parts)] = at
}

// between returns the integral of the factor over some time.
func (o *occupancy) between(begin, end uint64) float64 { return o.until(end) - o.until(begin) }

func (o *occupancy) until(at uint64) float64 {
	i := at / o.width
	if i >= uint64(len(o.parts)) {
		return o.whole[len(o.parts)]
	}
	return o.whole[i] + o.parts[i]*float64(at-i*o.width)
}
