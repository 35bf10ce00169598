package analyze

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// A comparison is the difference between the values of two sides.
type comparison struct {
	low, high float64 // 95 % interval of the difference of the means, by bootstrap
	p         float64 // of the Mann-Whitney test, two-sided
}

// compare compares two sides. Each list has a side's values in the order of time. Successive values
// may depend on each other. So compare averages them in longer and longer blocks, at least until the
// blocks no longer depend on each other, and takes the most careful result.
func compare(a, b []float64) (c comparison) {
	for size := 1; ; size *= 2 {
		ba, bb := blocks(a, size), blocks(b, size)
		c.p = max(c.p, mannWhitney(ba, bb))
		next := min(len(ba), len(bb)) / 2
		if next < minBlocks || next < 4*minBlocks && !dependent(ba) && !dependent(bb) {
			c.low, c.high = bootstrap(ba, bb)
			return c
		}
	}
}

// minBlocks is the number of blocks below which a side cannot be compared.
const minBlocks = 5

// blocks averages size values each. Values at the end that make no whole block are left out.
func blocks(values []float64, size int) []float64 {
	if size == 1 {
		return values
	}
	out := make([]float64, 0, len(values)/size)
	for ; len(values) >= size; values = values[size:] {
		out = append(out, sum(values[:size])/float64(size))
	}
	return out
}

// dependent reports whether successive values depend on each other more than chance makes it seem.
func dependent(values []float64) bool {
	n := len(values)
	if n < 3 {
		return false
	}
	mean := sum(values) / float64(n)
	var all, next float64
	for i, v := range values {
		all += (v - mean) * (v - mean)
		if i > 0 {
			next += (v - mean) * (values[i-1] - mean)
		}
	}
	return next > (0.2+0.5/math.Sqrt(float64(n)))*all
}

// mannWhitney returns the two-sided p of the Mann-Whitney U test, by the normal approximation with
// corrections for ties and for continuity. It is 1 if a side has fewer than minBlocks values.
func mannWhitney(a, b []float64) float64 {
	if min(len(a), len(b)) < minBlocks {
		return 1
	}
	type value struct {
		v float64
		a bool
	}
	var all []value
	for _, v := range a {
		all = append(all, value{v, true})
	}
	for _, v := range b {
		all = append(all, value{v, false})
	}
	slices.SortFunc(all, func(x, y value) int { return cmp.Compare(x.v, y.v) })
	var ranks, ties float64 // ranks: the sum of a's
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].v == all[i].v {
			j++
		}
		t := float64(j - i)
		ties += t*t*t - t
		for ; i < j; i++ {
			if all[i].a {
				ranks += float64(j) - (t-1)/2
			}
		}
	}
	n, m := float64(len(a)), float64(len(b))
	deviation := math.Sqrt(n * m / 12 * (n + m + 1 - ties/((n+m)*(n+m-1))))
	if deviation == 0 {
		return 1
	}
	away := math.Abs(ranks-n*(n+1)/2-n*m/2) - 0.5
	return min(1, math.Erfc(max(0, away)/deviation/math.Sqrt2))
}

// bootstrap returns the 95 % interval of the difference of the means. It is the same each time.
func bootstrap(a, b []float64) (low, high float64) {
	if len(a) == 0 || len(b) == 0 {
		return 0, 0
	}
	const trials = 1000
	rng := rand.New(rand.NewPCG(1, 2))
	list := make([]float64, trials)
	for i := range list {
		list[i] = resampled(rng, b) - resampled(rng, a)
	}
	slices.Sort(list)
	return list[trials*25/1000], list[trials*975/1000-1]
}

// resampled returns the mean of as many values, drawn with replacement.
func resampled(rng *rand.Rand, values []float64) (mean float64) {
	for range values {
		mean += values[rng.IntN(len(values))]
	}
	return mean / float64(len(values))
}

// holm adjusts the p of many tests, in place, so that the chance of any false one stays the same
// (Holm 1979).
func holm(p []*float64) {
	slices.SortFunc(p, func(a, b *float64) int { return cmp.Compare(*a, *b) })
	least := 0.0
	for i, v := range p {
		least = max(least, min(1, *v*float64(len(p)-i)))
		*v = least
	}
}
