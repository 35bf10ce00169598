package diff

import (
	"cmp"
	"math"
	"slices"

	"github.com/gotach/profiler/internal/analyze"
)

// measured has a row's value in each window of both sides, in the unit of its Row.
type measured struct {
	*Row
	values [2][]float64
}

// measure returns what a row took.
func (d *differ) measure(r *diffRow) (m measured) {
	var mean [2]float64
	for side := range m.values {
		switch {
		case r.what == WhatRequests:
			m.values[side], mean[side] = perWindow(d.requests[side], d.lengths[side], second)
		case d.o.Per == "request":
			m.values[side], mean[side] = ratios(r.time[side], d.requests[side])
		case d.o.Per == "share":
			m.values[side], mean[side] = perWindow(r.time[side], d.all[side], 1)
		default:
			m.values[side], mean[side] = perWindow(r.time[side], d.lengths[side], 1)
		}
		m.values[side] = d.sampled(side, m.values[side])
	}
	m.Row = &Row{Name: r.name, Level: r.level, What: r.what, A: mean[0], B: mean[1], Delta: mean[1] - mean[0], P: 1}
	m.Low, m.High = m.Delta, m.Delta
	return m
}

// sampled leaves out the values of windows in which nothing has a sample, such as the first ones of
// a session on a busy machine.
func (d *differ) sampled(side int, values []float64) []float64 {
	n := 0
	for i, v := range values {
		if d.all[side][i] > 0 {
			values[n] = v
			n++
		}
	}
	return values[:n]
}

// perWindow returns what there is for each unit of by, in each window and in all.
func perWindow[T float32 | float64](list []T, by []float64, unit float64) (values []float64, mean float64) {
	values = make([]float64, len(by))
	all := 0.0
	for i := range min(len(list), len(by)) {
		if v := unit * float64(list[i]); by[i] > 0 {
			values[i] = v / by[i]
			all += v
		}
	}
	return values, all / max(1, analyze.Sum(by))
}

// ratios returns the time in ns for each request, and for each window a value of which that is the
// mean: in one window the requests may be few, and no quotient can be taken there (the delta
// method).
func ratios(time []float32, requests []float64) (values []float64, mean float64) {
	values = make([]float64, len(requests))
	all := 0.0
	for _, v := range time {
		all += 1000 * float64(v)
	}
	n := analyze.Sum(requests)
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

// at is the row's difference if the same work takes speed times as much CPU time on side B.
func (m *measured) at(speed float64) effect {
	b := slices.Clone(m.values[1])
	for i := range b {
		b[i] /= speed
	}
	e, _ := compare(m.values[0], b)
	e.delta = m.B/speed - m.A
	return e
}

// usualRatio returns how much more CPU time side B has in most functions, by the time that they
// have.
func usualRatio(rows []measured) float64 {
	type ratio struct{ ratio, weight float64 }
	var list []ratio
	all := 0.0
	for _, r := range rows {
		if r.Level == LevelSelf && r.What == WhatCPU && r.A > 0 && r.B > 0 && !ofMachine(r.Name) {
			list = append(list, ratio{r.B / r.A, min(r.A, r.B)})
			all += min(r.A, r.B)
		}
	}
	slices.SortFunc(list, func(a, b ratio) int { return cmp.Compare(a.ratio, b.ratio) })
	below := 0.0
	for _, r := range list {
		if below += r.weight; below >= all/2 {
			return r.ratio
		}
	}
	return 1
}

// measureAll measures all rows that are shown, and says what they tell of the machine.
func (d *differ) measureAll() (rows []measured, on machine) {
	for side := range d.lengths {
		for i, all := range d.all[side] {
			if all == 0 { // nothing is known of this time
				d.lengths[side][i] = 0
			}
		}
	}
	var noCore [2]float64
	queued := 0.0
	for i := range d.rows {
		m := d.measure(&d.rows[i])
		rows = append(rows, m)
		if m.Name == rowNoCore {
			noCore = [2]float64{m.A, m.B}
		}
		if m.Name == rowNoCore || m.Name == rowRunnable {
			queued += math.Abs(m.Delta)
		}
	}
	rows = d.distinct(rows)
	cpu := &rows[wholeCPU]
	on = judgeMachine(queued, usualRatio(rows), [2]float64{cpu.A, cpu.B}, noCore)
	on.edge = 2 / float64(max(1, min(len(cpu.values[0]), len(cpu.values[1]))))
	return rows, on
}

// test says which rows are significant: each with its family.
func (d *differ) test(rows []measured, on *machine) {
	cpu := &rows[wholeCPU]
	families := map[diffKey]*rowFamily{} // by level and, but for the whole, what
	for i := range rows {
		m := &rows[i]
		if m.Level == LevelWhole && max(m.A, m.B) == 0 || max(m.A, m.B) < d.least(m, cpu) || ofMachine(m.Name) {
			continue
		}
		if _, ok := compare(m.values[0], m.values[1]); !ok {
			continue
		}
		key := diffKey{level: m.Level}
		if m.Level != LevelWhole {
			key.what = m.What
		}
		f := families[key]
		if f == nil {
			f = &rowFamily{}
			families[key] = f
		}
		m.Tested = true
		f.rows, f.trials = append(f.rows, m.Row), append(f.trials, on.trials(m.Row, m.at))
	}
	shares := 0.0
	for key, f := range families {
		if f.share = 1; key.level == LevelTotal {
			f.share = 2
		}
		shares += f.share
	}
	for _, f := range families {
		f.share /= shares
		f.judge()
	}
}

// result compares all rows.
func (d *differ) result() []Row {
	rows, on := d.measureAll()
	d.test(rows, &on)
	var out []Row
	for i, m := range rows {
		if i == wholeRequests && (d.unknown != nil || m.A+m.B == 0 || d.o.Per != "wall") || i == wholeGoroutines && d.o.Per == "share" {
			continue // unknown, or always the same
		}
		out = append(out, *m.Row)
	}
	slices.SortStableFunc(out, compareDiffRows)
	return out
}

// compareDiffRows puts the whole first, then what is significant. Of two rows that changed as much,
// that one is first which changed more of what it was.
func compareDiffRows(a, b Row) int {
	order := func(r *Row) (class int, size float64) {
		switch {
		case r.Level == LevelWhole:
			return 0, 0
		case r.Significant:
			class = 1
		default:
			class = 2
		}
		return class, -r.Delta * r.Delta / max(r.A, r.B)
	}
	ca, sa := order(&a)
	cb, sb := order(&b)
	return cmp.Or(cmp.Compare(ca, cb), cmp.Compare(sa, sb), cmp.Compare(a.Level, b.Level), cmp.Compare(a.Name, b.Name))
}

// least returns the size of a row below which it is not tested.
func (d *differ) least(m, cpu *measured) float64 {
	unit := 1.0
	if d.o.Per == "request" {
		for side := range d.lengths {
			unit = max(unit, 1000*analyze.Sum(d.lengths[side])/analyze.Sum(d.requests[side]))
		}
	}
	switch m.What {
	case WhatRequests:
		return leastShare
	case WhatCPU:
		return min(leastShare*unit, leastCPU*max(cpu.A, cpu.B))
	}
	return leastShare * unit
}

// distinct leaves out functions with what they call that call nothing, as these have a row of their
// own time, and all but the innermost of those that have the same samples.
func (d *differ) distinct(rows []measured) []measured {
	if d.o.By == "total" {
		return rows
	}
	self, same := map[string]*measured{}, map[[2]float64]bool{}
	for i := range rows {
		if m := &rows[i]; m.Level == LevelSelf && m.What == WhatCPU {
			self[m.Name] = m
		}
	}
	return slices.DeleteFunc(rows, func(m measured) bool {
		if m.Level != LevelTotal {
			return false
		}
		sums := [2]float64{m.A, m.B}
		out := same[sums]
		same[sums] = true
		s := self[m.Name]
		return out || s != nil && s.A >= 0.95*m.A && s.B >= 0.95*m.B
	})
}
