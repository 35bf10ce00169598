package diff

import (
	"math"

	"github.com/gotach/profiler/internal/analyze"
)

// An effect is the difference between the means of two sides, and how exactly it is known.
type effect struct {
	delta   float64
	error   float64 // standard error of delta
	freedom float64 // degrees of freedom of the error
	grows   bool    // the values grow or shrink all the time
}

// compare compares two sides. Each list has a side's values in the order of time. Successive values
// may depend on each other: then they count as fewer. They may do so only a little, but for long.
// So compare also averages them in blocks of two, four and so on until these do not depend on each
// other, and takes the widest error. ok is false if a side has too few values.
//
// Where values grow all the time, as the number of goroutines that leak, blocks never agree,
// although what is by chance is only how much they grow from one to the next. If that error is
// less, it counts.
func compare(a, b []float64) (e effect, ok bool) {
	if min(len(a), len(b)) < minValues {
		return e, false
	}
	widest := -1.0
	for size := 1; min(len(a), len(b))/size >= minValues; size *= 2 {
		ba, bb := blocks(a, size), blocks(b, size)
		now := welch(ba, bb)
		if width := now.error * studentQuantile(0.05, now.freedom); width > widest {
			e, widest = now, width
		}
		if size > 1 && dependence(ba) == 0 && dependence(bb) == 0 {
			break
		}
	}
	wa, ga := walkError(a)
	wb, gb := walkError(b)
	walk := effect{delta: e.delta, error: math.Hypot(wa, wb), freedom: float64(min(len(a), len(b)) - 2), grows: true}
	if (ga || gb) && walk.error*studentQuantile(0.05, walk.freedom) < widest {
		e = walk
	}
	return e, true
}

// inner leaves out the first and last values: a session does not begin and end with a window. What
// happens there says nothing about how values follow each other.
func inner(values []float64) []float64 {
	return values[len(values)/16 : len(values)-len(values)/16]
}

// minValues is the number of values below which a side cannot be compared.
const minValues = 5

// walkError returns the error of the mean of values, each of which is the one before and a step of
// chance more (a random walk with drift), and whether they grow or shrink more than such steps do
// by chance.
func walkError(values []float64) (error float64, grows bool) {
	n := float64(len(values))
	values = inner(values)
	steps := float64(len(values) - 1)
	all := values[len(values)-1] - values[0]
	square := 0.0
	for i := range values[1:] {
		off := values[i+1] - values[i] - all/steps
		square += off * off
	}
	square /= steps - 1
	return math.Sqrt(square * n / 3), all*all > 16*square*steps
}

// welch returns the difference of the means, with the error of Welch's t-test.
func welch(a, b []float64) effect {
	ma, va, fa := meanError(a)
	mb, vb, fb := meanError(b)
	e := effect{delta: mb - ma, error: math.Sqrt(va + vb), freedom: min(fa, fb)}
	if va+vb > 0 {
		e.freedom = (va + vb) * (va + vb) / (va*va/fa + vb*vb/fb)
	}
	return e
}

// meanError returns the mean of values, and the square of its standard error with the degrees of
// freedom. Values that depend on each other count as fewer (Bayley and Hammersley 1946).
func meanError(values []float64) (mean, square, freedom float64) {
	n := float64(len(values))
	mean = analyze.Sum(values) / n
	for _, v := range values {
		square += (v - mean) * (v - mean)
	}
	depends := dependence(values)
	count := max(1, n*(1-depends)/(1+depends)-1)
	return mean, square / n / count, max(leastFreedom, count)
}

// chance returns how likely a difference of this size or more is, if there is none but for what is
// not by chance: up to margin.
func (e *effect) chance(margin float64) float64 {
	beyond := math.Abs(e.delta) - margin
	switch {
	case beyond <= 0:
		return 1
	case e.error == 0:
		return 0
	}
	return studentTail(beyond/e.error, e.freedom)
}

// interval returns where the difference lies. It has 0 exactly if chance is at least alpha.
func (e *effect) interval(margin, alpha float64) (low, high float64) {
	wide := margin
	if e.error > 0 {
		wide += e.error * studentQuantile(alpha, e.freedom)
	}
	return e.delta - wide, e.delta + wide
}

// blocks averages size values each. Values at the end that make no whole block are left out.
func blocks(values []float64, size int) []float64 {
	if size == 1 {
		return values
	}
	out := make([]float64, 0, len(values)/size)
	for ; len(values) >= size; values = values[size:] {
		out = append(out, analyze.Sum(values[:size])/float64(size))
	}
	return out
}

// leastFreedom is the least degrees of freedom of a side: values of few lengths of dependence say
// more about how far they spread.
const leastFreedom = minValues - 1

// dependence returns the correlation of successive values, 0 if it is not more than chance makes it
// seem.
func dependence(values []float64) float64 {
	values = inner(values)
	n := float64(len(values))
	mean := analyze.Sum(values) / n
	var all, next float64
	for i, v := range values {
		all += (v - mean) * (v - mean)
		if i > 0 {
			next += (v - mean) * (values[i-1] - mean)
		}
	}
	if next <= (0.1+0.5/math.Sqrt(n))*all || all < 1e-20*n*mean*mean { // less than rounding
		return 0
	}
	found := next / all
	// Of few values too little is seen (Kendall 1954), and it is known to a standard error only.
	return min(0.99, found+(1+3*found)/n+math.Sqrt((1-found*found)/n))
}
