package analyze

import (
	"math"

	"github.com/gotach/profiler/tachyon"
)

// ratios returns the time in ns for each request, and for each window a value of which that is the mean: in
// one window the requests may be few, and no quotient can be taken there (the delta method).
func ratios(time []float32, requests []float64) (values []float64, mean float64) {
	values = make([]float64, len(requests))
	all := 0.0
	for _, v := range time {
		all += 1000 * float64(v)
	}
	n := sum(requests)
	mean = all / n
	for i, r := range requests {
		v := 0.0
		if i < len(time) {
			v = 1000 * float64(time[i])
		}
		values[i] = mean + (v-mean*r)/(n/float64(len(requests)))
	}
	return values, mean
}

// judge adjusts the p of the rows that were tested, and says which rows are significant: p is below
// 0.05, the interval does not have 0, and the machine cannot be the reason. Two runs of one program
// differ a little because timers and cores are not always equally fast: leastChange of a row. If
// goroutines could run but did not for longer on one side, that changes the other rows as much. So the
// difference must be greater, or be more than half of the row and more than machineShare of what the
// machine changed. core is how much more CPU time side B has than side A. If the machine gave one side less,
// all that runs on a CPU has less there. So more than half of the row must remain when that is taken off.
func judge(rows []DiffRow, core float64) {
	var p []*float64
	machine := 0.0
	for i := range rows {
		if rows[i].Tested() {
			p = append(p, &rows[i].P)
		}
		if rows[i].Name == rowNoCore || rows[i].Name == rowRunnable {
			machine += math.Abs(rows[i].Delta)
		}
	}
	holm(p)
	for i := range rows {
		r := &rows[i]
		size, row := math.Abs(r.Delta), max(r.A, r.B)
		r.Significant = r.Tested() && r.P < 0.05 && (r.Low > 0 || r.High < 0) && size >= leastShare*r.unit &&
			size >= leastChange*row && (size > machine || size > machine*machineShare && r.halves(1) && r.halves(core))
	}
}

// halves reports whether one side of a row has less than half of the other, when the side that has more CPU
// time is reduced to as much as the other.
func (r *DiffRow) halves(core float64) bool {
	a, b := r.A*min(1, core), r.B/max(1, core)
	return math.Abs(a-b) > max(a, b)/2
}

// rowNoCore and rowRunnable have the time in which goroutines could run and did not.
const rowNoCore, rowRunnable = "[no core]", "[runnable]"

// Tested reports whether a row is tested. What depends on the machine's load or is the profiler's own
// is not.
func (r *DiffRow) Tested() bool {
	switch r.Name {
	case rowNoCore, rowRunnable, tachyon.FuncScheduler, tachyon.FuncProfiler:
		return false
	}
	return max(r.A, r.B) >= leastShare*r.unit
}
