package requests

import (
	"math"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/analyze"
)

// lengths estimate how long requests took. Ticks are rare, so of one request only bounds are known:
// it began between two samples and ended between two samples. But it began and ended at random
// moments there, so many requests together say more. Which lengths explain the bounds of all
// requests best is found by expectation maximization (the NPMLE for doubly interval-censored data).
type lengths struct {
	edges []float64 // of bins, µs, ascending
	count []float64 // of requests with a length in each bin
	short uint64    // µs; shorter requests are too short to tell
	all   float64   // requests, with those of at least short that have no sample
}

const (
	// Bins are 1/binsOfGap of the usual time between two samples wide, and at least 1/binsOfLength
	// of the length.
	binsOfGap, binsOfLength = 8, 64
	// maxLengths is the number of requests that the estimate uses. More make it no better.
	maxLengths = 20_000
	rounds     = 100 // further ones would fit chance
	// A request shorter than about a third of the usual time between two samples counts as if it
	// were as long: how many of those have no sample cannot be known.
	leastSeen = 0.35
)

// estimate returns what the function estimate does, and keeps it for the next time.
func (f *finder) estimate(list []*request) *lengths {
	if f.estimated == nil || !slices.Equal(f.estimatedOf, list) {
		f.estimated, f.estimatedOf = estimate(list), list
	}
	return f.estimated
}

// estimate returns the lengths of requests. There must be some.
func estimate(list []*request) *lengths {
	every := 1 + (len(list)-1)/maxLengths
	if every > 1 {
		list = slices.Clone(list)
		slices.SortFunc(list, func(a, b *request) int { return int(int64(a.length()) - int64(b.length())) })
	}
	var used []*request
	var gaps []uint64
	longest := uint64(0)
	for i := every / 2; i < len(list); i += every {
		x := list[i]
		used = append(used, x)
		gaps = append(gaps, x.first-x.before)
		longest = max(longest, x.after-x.before)
	}
	slices.Sort(gaps)
	l := &lengths{short: max(1, gaps[len(gaps)/2])}
	for edge := 0.0; ; edge += max(float64(l.short)/binsOfGap, edge/binsOfLength) {
		if l.edges = append(l.edges, edge); edge > float64(longest) {
			break
		}
	}
	l.count = make([]float64, len(l.edges)-1)
	l.fit(used, l.missed(used))
	for i := range l.count {
		l.count[i] *= float64(every)
		l.all += l.count[i]
	}
	return l
}

// A gapClass is requests that began in a gap of about the same length between two samples.
type gapClass struct {
	requests float64
	missed   []float64 // by bin: the chance that a request of this length, begun in such a gap, has no sample
}

// missed groups requests by the gap that they began in.
//
// A request that began in a gap has a sample if it lasted until the gap's end. So of short requests
// those in short gaps are seen more often, and the gaps of the requests that have samples are
// shorter than those of all. The chance must be that of each request's own gap.
func (l *lengths) missed(list []*request) (out []gapClass) {
	class := map[int]int{}
	for _, x := range list {
		gap := float64(x.first - x.before)
		n, _ := slices.BinarySearch(l.edges, gap)
		at, ok := class[n]
		if !ok {
			at = len(out)
			class[n] = at
			c := gapClass{}
			gap = (l.edges[max(0, n-1)] + l.edges[n]) / 2
			for i := range l.count {
				length := max((l.edges[i]+l.edges[i+1])/2, leastSeen*float64(l.short))
				if length >= gap {
					break
				}
				c.missed = append(c.missed, 1-length/gap)
			}
			out = append(out, c)
		}
		out[at].requests++
	}
	return out
}

// fit sets the counts to those that explain the requests best, with those that have no sample.
func (l *lengths) fit(list []*request, classes []gapClass) {
	rows := make([]chances, len(list))
	for i, x := range list {
		rows[i] = l.chances(x)
	}
	for j := range l.count {
		l.count[j] = l.edges[j+1] - l.edges[j]
	}
	next := make([]float64, len(l.count))
	for range rounds {
		clear(next)
		for _, r := range rows {
			sum := 0.0
			count := l.count[r.first:][:len(r.weights)]
			for j, w := range r.weights {
				sum += w * count[j]
			}
			if sum <= 0 {
				continue
			}
			into, part := next[r.first:][:len(r.weights)], 1/sum // a division takes long
			for j, w := range r.weights {
				into[j] += w * count[j] * part
			}
		}
		// For each request that has a sample there are so many others that began in such a gap and
		// have none.
		all := 0.0
		for _, n := range l.count {
			all += n
		}
		for _, c := range classes {
			seen := all
			for j, m := range c.missed {
				seen -= m * l.count[j]
			}
			for j, m := range c.missed {
				next[j] += c.requests * m * l.count[j] / seen
			}
		}
		l.count, next = next, l.count
	}
}

// chances has how likely a request's bounds are, given a length: a weight for each from number
// first on.
type chances struct {
	first   int
	weights []float64
}

func (l *lengths) chances(x *request) chances {
	low, high := float64(x.last-x.first), float64(x.after-x.before)
	p, q := max(1, float64(x.first-x.before)), max(1, float64(x.after-x.last))
	first, _ := slices.BinarySearch(l.edges, low)
	r := chances{first: max(0, first-1)}
	// The chance of these bounds, given a length d, is that of a beginning of which both are
	// true. Its integral over d is made of four parabolas.
	integral := func(d float64) float64 {
		half := func(y float64) float64 { y = max(0, y); return y * y / 2 }
		return half(d-low) - half(d-low-p) - half(d-low-q) + half(d-low-p-q)
	}
	before := integral(l.edges[r.first])
	for j := r.first; j < len(l.count) && (l.edges[j] <= high || j == r.first); j++ {
		after := integral(l.edges[j+1])
		r.weights = append(r.weights, max(0, after-before)/(l.edges[j+1]-l.edges[j]))
		before = after
	}
	return r
}

// quantile returns the length in µs below which a share q of so many requests is. Those that are
// more than all are the shortest: each had begun and ended between two samples.
func (l *lengths) quantile(q, requests float64) uint64 {
	left := q*requests - (requests - l.all)
	if left < 0 {
		return 0
	}
	for i, n := range l.count {
		if left <= n && n > 0 {
			return uint64(math.Round(l.edges[i] + (l.edges[i+1]-l.edges[i])*left/n))
		}
		left -= n
	}
	return uint64(l.edges[len(l.edges)-1])
}

// over returns how many requests take longer than d µs.
func (l *lengths) over(d uint64) (n float64) {
	for i := range l.count {
		from, to := l.edges[i], l.edges[i+1]
		if at := float64(d); at <= from {
			n += l.count[i]
		} else if at < to {
			n += l.count[i] * (to - at) / (to - from)
		}
	}
	return n
}

// percentiles returns the percentiles of so many requests, some of which have samples and are in
// the list from which l was estimated. Where the number is not known well enough, a percentile has
// a limit only: with fewer requests that have no sample it is greater.
func (l *lengths) percentiles(list []*request, c Number) (out Lengths) {
	longest, one := uint64(0), uint64(0) // one: of those that are certainly one request
	for _, x := range list {
		if longest = max(longest, x.length()); !x.joined {
			one = max(one, x.length())
		}
	}
	if mayJoin(list) { // those that seem to have no sample may be parts of these
		c.Low, c.High = len(list), 0
	}
	at := func(q float64, value, below *time.Duration) {
		of := func(n int) uint64 { return min(l.quantile(q, float64(n)), longest) }
		most, least := of(c.Low), uint64(0)
		if c.High > 0 {
			least = of(c.High)
		}
		switch {
		case most < l.short:
			*below = analyze.Micros(l.short)
		case least < l.short || most-least > max(most/10, l.short):
			*below = analyze.Micros(most)
		default:
			*value = analyze.Micros(of(c.Count))
		}
	}
	at(0.5, &out.P50, &out.P50Below)
	at(0.9, &out.P90, &out.P90Below)
	at(0.99, &out.P99, &out.P99Below)
	if out.Max = analyze.Micros(longest); longest < l.short || one < longest {
		out.Max, out.MaxBelow = 0, analyze.Micros(max(longest, l.short))
	}
	return out
}

// mayJoin reports whether more than a few requests may be several that followed one another.
func mayJoin(list []*request) bool {
	joined := 0
	for _, x := range list {
		joined += analyze.Int(x.joined)
	}
	return 100*joined > len(list)
}
