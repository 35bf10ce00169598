package page

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gotach/profiler/tachyon"
)

const (
	// longGap says how many times longer than usual a gap between samples is at least to be shown.
	longGap    = 5
	mostGaps   = 4096 // of a page
	mostCounts = 256  // of a side
)

// Ticks say how often a side was sampled. Times are in µs.
type Ticks struct {
	Usual uint64 `json:"usual_us"` // between two ticks while something runs, on average; 0: not known
	Long  uint64 `json:"long_us"`  // shorter times without samples are not shown
	// Counts are those of the files, in the order of their beginnings: a file has only sums. If
	// there are too many files, it is one element with the sums of all.
	Counts []TickCounts `json:"counts"`

	asked, reached, idle int64
	interval             uint64
}

// TickCounts are the ticks of a file that were not taken, and why.
type TickCounts struct {
	From      uint64 `json:"from_us"` // on the page's axis
	To        uint64 `json:"to_us"`
	Budget    int64  `json:"budget"`
	Idle      int64  `json:"idle"`
	Refused   int64  `json:"refused"`
	Late      int64  `json:"late"`
	Throttled uint64 `json:"throttled_us"`
}

// add adds the counts of a file that begins at a time of the axis. s may be nil.
func (t *Ticks) add(s *tachyon.Session, from uint64) {
	if s == nil {
		return
	}
	t.asked, t.reached, t.idle = t.asked+s.TicksAsked, t.reached+s.TicksReached, t.idle+s.TicksIdle
	if s.Rate > 0 {
		t.interval = max(t.interval, uint64(time.Second.Microseconds())/uint64(s.Rate))
	}
	c := TickCounts{
		From: from, To: from + uint64(max(0, s.Duration).Microseconds()), Budget: s.TicksForBudget, Idle: s.TicksIdle, Refused: s.TicksRefused,
		Late:      s.TicksLate(),
		Throttled: uint64(max(0, s.Throttled).Microseconds()),
	}
	if len(t.Counts) < mostCounts {
		t.Counts = append(t.Counts, c)
		return
	}
	sum := &t.Counts[0]
	for _, x := range append(t.Counts[1:], c) {
		sum.From, sum.To = min(sum.From, x.From), max(sum.To, x.To)
		sum.Budget, sum.Idle, sum.Refused, sum.Late, sum.Throttled = sum.Budget+x.Budget, sum.Idle+x.Idle, sum.Refused+x.Refused, sum.Late+x.Late, sum.Throttled+x.Throttled
	}
	t.Counts = append(make([]TickCounts, 0, mostCounts), *sum)
}

// finish works out the usual time between two ticks. interval is that of the header. Where nobody
// counted ticks, the mean is used: the samples are at so many moments of that length. Both are in
// µs.
func (t *Ticks) finish(interval uint64, moments int, length uint64) {
	t.Usual = cmp.Or(t.interval, interval)
	if busy := t.asked - t.idle; t.reached > 0 && busy > t.reached {
		t.Usual = uint64(float64(t.Usual) * float64(busy) / float64(t.reached))
	} else if t.reached == 0 && moments > 0 {
		t.Usual = max(t.Usual, length/uint64(moments))
	}
	t.Usual = min(t.Usual, length) // the counts may be anything
	slices.SortStableFunc(t.Counts, func(a, b TickCounts) int { return cmp.Compare(a.From, b.From) })
}

// moments are the times of samples on the axis, as far as gaps need them: the first and the last
// one of each step, as µs since the step's beginning + 1; 0: none.
type moments struct{ first, last []uint32 }

// add adds the time of a sample. width is that of a step.
func (m *moments) add(width, at uint64) {
	step, in := int(at/width), uint32(min(at%width, math.MaxUint32-1))+1
	if step >= len(m.first) {
		n := step + 1 - len(m.first)
		m.first, m.last = append(m.first, make([]uint32, n)...), append(m.last, make([]uint32, n)...)
	}
	if m.first[step] == 0 || in < m.first[step] {
		m.first[step] = in
	}
	m.last[step] = max(m.last[step], in)
}

// double makes the steps twice as long. width is what they were.
func (m *moments) double(width uint64) {
	later := func(in uint32) uint32 { return uint32(min(uint64(in)+width, math.MaxUint32)) }
	for i := range (len(m.first) + 1) / 2 {
		first, last := m.first[2*i], m.last[2*i]
		if 2*i+1 < len(m.first) && m.first[2*i+1] != 0 {
			if last = later(m.last[2*i+1]); first == 0 {
				first = later(m.first[2*i+1])
			}
		}
		m.first[i], m.last[i] = first, last
	}
	n := (len(m.first) + 1) / 2
	m.first, m.last = m.first[:n], m.last[:n]
}

// count returns how many steps between two times have samples.
func (m *moments) count(width, from, to uint64) (n int) {
	for i := int(from / width); i < len(m.first) && uint64(i)*width < to; i++ {
		if m.first[i] != 0 {
			n++
		}
	}
	return n
}

// A gap is time without samples. One that stands for several has samples in between, but little
// time.
type gap struct {
	from, to uint64 // µs on the axis
	count    int
	longest  uint64
}

// find returns the gaps between two times that are not shorter than long, which must be at least
// the width of two steps: so each is in more than one step.
func (m *moments) find(width, from, to, long uint64) (list []gap) {
	last := from
	note := func(at uint64) {
		if at >= last+long {
			list = append(list, gap{last, at, 1, at - last})
		}
	}
	for i := int(from / width); i < len(m.first) && uint64(i)*width < to; i++ {
		if m.first[i] != 0 {
			begin := uint64(i) * width
			note(begin + uint64(m.first[i]) - 1)
			last = begin + uint64(m.last[i]) - 1
		}
	}
	note(to)
	return list
}

// joinGaps joins gaps with at most so much time between them.
func joinGaps(list []gap, between uint64) []gap {
	var out []gap
	for _, g := range list {
		if n := len(out); n > 0 && g.from <= out[n-1].to+between {
			last := &out[n-1]
			last.to, last.count, last.longest = g.to, last.count+g.count, max(last.longest, g.longest)
			continue
		}
		out = append(out, g)
	}
	return out
}

// gaps returns the columns with the gaps of all sides, and notes in the sides what they are.
func (b *builder) gaps() []column {
	var all []gap
	for i := range b.sides {
		s := &b.sides[i]
		if s.Ticks == nil || s.Ticks.Usual == 0 {
			continue
		}
		s.Ticks.Long = max(longGap*s.Ticks.Usual, 2*b.width)
		list := joinGaps(b.moments.find(b.width, s.From, s.To, s.Ticks.Long), s.Ticks.Usual)
		for between := 2 * s.Ticks.Usual; len(list) > mostGaps/len(b.sides); between *= 2 {
			list = joinGaps(list, between)
		}
		all = append(all, list...)
	}
	var from, length, count, longest []int64
	at := uint64(0)
	for _, g := range all {
		from, at = append(from, int64(g.from-at)), g.to
		length, count, longest = append(length, int64(g.to-g.from)), append(count, int64(g.count)), append(longest, int64(g.longest))
	}
	return []column{{"gapFrom", from}, {"gapLength", length}, {"gapCount", count}, {"gapLongest", longest}}
}
