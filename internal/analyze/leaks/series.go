package leaks

import (
	"math"
	"slices"
)

// A clock divides the time of a profile into at most maxBins bins of equal width. The length of
// the profile need not be known: the width doubles when there are too many bins.
type clock struct {
	width  uint64 // µs of a bin
	double int    // how often the width was doubled
}

const maxBins = 120

// cover makes the clock reach a time in µs.
func (c *clock) cover(t uint64) {
	for t/c.width >= maxBins {
		c.width *= 2
		c.double++
	}
}

// A series has an amount of time for each bin of a clock, in µs.
type series struct {
	bins   []float64
	double int // of the clock, when bins was right
}

// follow adds up bins until they have the width of the clock's.
func (s *series) follow(c *clock) {
	for ; s.double < c.double; s.double++ {
		for i := range (len(s.bins) + 1) / 2 {
			sum := s.bins[2*i]
			if 2*i+1 < len(s.bins) {
				sum += s.bins[2*i+1]
			}
			s.bins[i] = sum
		}
		s.bins = s.bins[:(len(s.bins)+1)/2]
	}
}

// add adds the time between two times in µs, which the clock must cover.
func (s *series) add(c *clock, from, to uint64) {
	s.follow(c)
	if to <= from {
		return
	}
	last := int((to - 1) / c.width)
	for len(s.bins) <= last {
		s.bins = append(s.bins, 0)
	}
	for i := int(from / c.width); i <= last; i++ {
		begin := uint64(i) * c.width
		s.bins[i] += float64(min(to, begin+c.width) - max(from, begin))
	}
}

// average returns how many of what was added there were in each bin on average. The profile ends at
// the time end. A last bin of less than half the width is left out.
func (s *series) average(c *clock, end uint64) []float64 {
	s.follow(c)
	n := int(end / c.width)
	rest := end - uint64(n)*c.width
	if 2*rest >= c.width {
		n++
	}
	out := make([]float64, n)
	for i := range out {
		width := c.width
		if uint64(i+1)*c.width > end {
			width = rest
		}
		if i < len(s.bins) {
			out[i] = s.bins[i] / float64(width)
		}
	}
	return out
}

// theilSen returns the median of the slopes between all pairs of values, and the lower bound of its
// 95 % interval (Sen 1968). The unit is a bin. Without at least 8 values it returns 0.
func theilSen(values []float64) (slope, low float64) {
	n := len(values)
	if n < 8 {
		return 0, 0
	}
	slopes := make([]float64, 0, n*(n-1)/2)
	for i := range values {
		for j := i + 1; j < n; j++ {
			slopes = append(slopes, (values[j]-values[i])/float64(j-i))
		}
	}
	slices.Sort(slopes)
	all := float64(len(slopes))
	spread := 1.96 * math.Sqrt(float64(n)*float64(n-1)*float64(2*n+5)/18)
	return slopes[len(slopes)/2], slopes[max(0, int((all-spread)/2))]
}
