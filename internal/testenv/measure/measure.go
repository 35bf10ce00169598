// Package measure judges measurements: how exact or how cheap something is on a quiet machine. A
// measurement is not a test. Its function is named TestMeasure..., lies in a file with the build
// tag measure, and runs with .ci/run measure only, alone on the machine.
package measure

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// Only measurements import this package.
func init() { testenv.CollectAsUsual() }

// A measurement is repeated until one answer is far ahead. A run within the bound counts for it, a
// run outside against it.
const (
	toPass = 3  // so many more within than outside: the bound holds
	ofSize = 2  // the same for a size, and for runs that are all within half of the bound
	toFail = 7  // so many more outside than within: it does not
	most   = 16 // after so many runs without an answer the machine is too noisy to tell
)

// If at least four runs of five lie within the bound, as they do for right code on a quiet machine,
// then the chance to ever be toFail behind is at most (1/5 : 4/5)^7 = 4^-7, less than 1 in 10,000:
// gambler's ruin, https://en.wikipedia.org/wiki/Gambler%27s_ruin. If at most one of five does, then
// the chance to pass is at most 4^-3 + 5^-2, 1 in 18: so many more within, or two runs at once
// within half of the bound.

// AtMost measures until it is sure whether what is at most bound, and prints the median and the
// range. once makes one measurement, beside the peer that it compares with if there is one, and
// returns the figure in unit. The test fails if the bound does not hold. If the runs do not agree
// it is skipped, with the words "too noisy to tell".
func AtMost(t *testing.T, what, unit string, bound float64, once func() float64) {
	t.Helper()
	atMost(t, what, unit, bound, toPass, once)
}

// SizeAtMost is AtMost for a size, such as the memory of a program. Runs differ by a few percent,
// so fewer are enough.
func SizeAtMost(t *testing.T, what, unit string, bound float64, once func() float64) {
	t.Helper()
	atMost(t, what, unit, bound, ofSize, once)
}

func atMost(t *testing.T, what, unit string, bound float64, toPass int, once func() float64) {
	t.Helper()
	var runs []float64
	answer := judge(bound, toPass, func() float64 {
		runs = append(runs, once())
		return runs[len(runs)-1]
	})
	figure := describe(what, unit, bound, runs)
	switch answer {
	case holds:
		t.Log(figure)
	case broken:
		t.Error(figure)
	case noisy:
		t.Skip("too noisy to tell: " + figure)
	}
}

type answer int

const (
	noisy answer = iota
	holds
	broken
)

func judge(bound float64, toPass int, once func() float64) answer {
	ahead, clear := 0, true
	for range most {
		x := once()
		clear = clear && x <= bound/2
		if x <= bound {
			ahead++
		} else { // also what is not a number
			ahead--
		}
		switch {
		case ahead == toPass, ahead == ofSize && clear:
			return holds
		case ahead == -toFail:
			return broken
		}
	}
	return noisy
}

func describe(what, unit string, bound float64, runs []float64) string {
	sorted := slices.Sorted(slices.Values(runs))
	return fmt.Sprintf("%s: %.3g %s (%.3g…%.3g in %d runs), asked at most %.3g",
		what, sorted[len(sorted)/2], unit, sorted[0], sorted[len(sorted)-1], len(runs), bound)
}
