package diff

import (
	"cmp"
	"math"
	"slices"

	"github.com/gotach/profiler/tachyon"
)

// falseShare is the share of false rows among the significant ones, at most, on average. It is
// divided among the families of rows that are tested together: the whole, functions with what they
// call, functions on a CPU, waits. So what people ask first is not lost among many small rows.
// Functions with what they call have two parts, as they are named first.
const falseShare = 0.05

// A trial is a row's difference under one assumption, and what may have changed the row other than
// by chance.
type trial struct {
	effect
	margin float64
}

// machine is what the two sides say of the machine that they ran on.
type machine struct {
	queued float64 // by how much more goroutines could run and did not on one side, in the unit of waits
	// least and most are between which the same work takes so many times as much CPU time on side
	// B, or was done so many times as often.
	least, most float64
	// doubt is by what factor the machine may have changed the CPU time and the work of all.
	doubt float64
	edge  float64 // share of the time of a side that is in its first and last window, which are not known as a whole
}

// usualDoubt is the factor by which two runs of a program differ in CPU time on a machine that
// nobody else uses. It is busyDoubt more where other programs have nearly all of it: caches are
// cold then, and cores are shared.
const usualDoubt, busyDoubt = 1.1, 0.2

// judgeMachine says what differs because of the machine. ratio is how much more CPU time side B has
// in most of its rows. cpu and noCore are what goroutines had of cores and did not get.
func judgeMachine(queued, ratio float64, cpu, noCore [2]float64) machine {
	var free [2]float64 // share of the time in which goroutines ran that the kernel gave them
	for side := range free {
		free[side] = 1
		if all := cpu[side] + noCore[side]; all > 0 {
			free[side] = cpu[side] / all
		}
	}
	m := machine{queued: queued}
	least, most := min(free[0], free[1]), max(free[0], free[1])
	m.doubt = most / least * (usualDoubt + busyDoubt*(1-least))
	if ratio = min(m.doubt, max(1/m.doubt, ratio)); !(ratio > 0) { // one side has no CPU time
		ratio = 1
	}
	m.least, m.most = min(1, ratio), max(1, ratio)
	return m
}

// trials returns under which assumptions a row has to be different. A difference below leastChange
// of the row does not count: timers are not always equally fast.
//
// If goroutines could run but did not for longer on one side, that changes the waits as much. So a
// wait must differ by more, or by more than half of the row and more than machineShare of what the
// machine changed. The CPU time of a function must differ however fast the machine was on side B.
func (m *machine) trials(r *Row, at func(speed float64) effect) []trial {
	size := max(r.A, r.B)
	least := leastChange * size
	switch {
	case r.Level == LevelWhole && r.What != WhatGoroutines:
		return []trial{{at(1), max(least, (1-1/m.doubt)*size)}}
	case r.What == WhatCPU:
		return []trial{{at(m.least), least}, {at(m.most), least}}
	}
	plain := at(1)
	least = max(least, m.edge*size)
	if plain.grows { // as fast as work is done, and not all work needs the CPU
		least = max(least, (1-1/math.Sqrt(m.doubt))*size)
	}
	return []trial{{plain, max(least, min(m.queued, max(size/2, machineShare*m.queued)))}}
}

// A rowFamily is rows that are tested together.
type rowFamily struct {
	rows   []*Row
	trials [][]trial // of each row
	share  float64   // of falseShare
}

// judge says which rows are significant, with the false discovery rate of Benjamini and Hochberg
// (1995), as weighted by Genovese, Roeder and Wasserman (2006): of waits and of functions on a CPU,
// which are many, one with more time counts more. The interval of a row is so wide that it has 0
// exactly if the row is not significant (Benjamini and Yekutieli 2005).
func (f *rowFamily) judge() {
	rate := falseShare * f.share
	type tested struct {
		row       *Row
		p, weight float64
	}
	list := make([]tested, len(f.rows))
	all := 0.0
	for i, r := range f.rows {
		list[i] = tested{row: r, weight: 1}
		if r.Level == LevelSelf {
			list[i].weight = math.Sqrt(r.A + r.B)
		}
		all += list[i].weight
		for _, t := range f.trials[i] {
			list[i].p = max(list[i].p, t.chance(t.margin))
		}
		if t := f.trials[i]; len(t) > 1 && t[0].delta*t[1].delta <= 0 { // more or less depends on the assumption
			list[i].p = 1
		}
	}
	for i := range list {
		list[i].weight /= all // its share of the rate
	}
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(list[a].p/list[a].weight, list[b].p/list[b].weight) })
	found, least := 1, 1.0
	for k := len(order); k > 0; k-- {
		x := list[order[k-1]]
		least = min(least, x.p/x.weight/float64(k))
		if least <= rate {
			found = max(found, k)
		}
		x.row.P = max(x.p, min(1, least/f.share))
	}
	for i, x := range list {
		alpha := min(falseShare, rate*x.weight*float64(found))
		x.row.Low, x.row.High = math.Inf(1), math.Inf(-1)
		for _, t := range f.trials[i] {
			low, high := t.interval(t.margin, alpha)
			x.row.Low, x.row.High = min(x.row.Low, low), max(x.row.High, high)
		}
		x.row.Significant = x.row.Low > 0 || x.row.High < 0
	}
}

// rowNoCore and rowRunnable have the time in which goroutines could run and did not.
const rowNoCore, rowRunnable = "[no core]", "[runnable]"

// ofMachine reports whether a row depends on the machine's load or is the profiler's own: it is not
// tested.
func ofMachine(name string) bool {
	switch name {
	case rowNoCore, rowRunnable, tachyon.FuncScheduler, tachyon.FuncProfiler:
		return true
	}
	return false
}
