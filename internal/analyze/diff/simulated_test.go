package diff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// A simulation makes what a differ adds up of two runs, window by window.
type simulation struct {
	*differ
	rng *rand.Rand
}

const simulatedWindows = 60

func simulate(seed uint64) *simulation {
	s := &simulation{&differ{o: Options{By: "function", Per: "wall"}, number: map[diffKey]int32{}}, rand.New(rand.NewPCG(seed, 3))}
	for side := range 2 {
		for range simulatedWindows {
			s.lengths[side] = append(s.lengths[side], second/6)
			s.all[side] = append(s.all[side], second/6)
		}
	}
	for _, key := range wholes {
		s.row(key)
	}
	return s
}

// walk returns values around 1 that depend on the ones before.
func (s *simulation) walk(depends, spread float64) (list []float64) {
	x := s.rng.NormFloat64()
	for range simulatedWindows {
		list = append(list, max(0, 1+spread*x))
		x = depends*x + math.Sqrt(1-depends*depends)*s.rng.NormFloat64()
	}
	return list
}

// add gives a row so much of a goroutine or core in each window, in samples of 4 ms, and the rows of the whole too if it is of a
// function itself.
func (s *simulation) add(side int, key diffKey, mean float64, factor []float64) {
	rows := []int32{s.row(key)}
	if key.level == LevelSelf {
		rows = append(rows, wholeGoroutines)
		if key.what == WhatCPU {
			rows = append(rows, wholeCPU)
		}
	}
	const each = 4000 // µs
	for i, length := range s.lengths[side] {
		samples := 0
		for at := s.rng.ExpFloat64(); at < mean*factor[i]*length/each; at += s.rng.ExpFloat64() {
			samples++
		}
		for _, r := range rows {
			row := &s.rows[r]
			if row.time[side] == nil {
				row.time[side] = make([]float32, simulatedWindows)
			}
			row.time[side][i] += float32(each * samples)
		}
	}
}

// program adds a program that uses 0.4 cores in functions of all sizes, with waits of all sizes. On side B the machine is so many
// times as fast. The CPU time that there is changes from window to window by spread.
func (s *simulation) program(side int, speed, spread float64) (machine []float64) {
	machine = s.walk(0.8, spread)
	for i := range machine {
		machine[i] *= speed
	}
	for i := range 20 {
		s.add(side, diffKey{fmt.Sprint("main.f", i), LevelSelf, WhatCPU}, 0.2/math.Pow(1.7, float64(i)), machine)
		s.add(side, diffKey{fmt.Sprint("main.t", i), LevelTotal, WhatCPU}, 0.4/math.Pow(1.4, float64(i)), machine)
		s.add(side, diffKey{fmt.Sprint("[select] main.w", i), LevelSelf, WhatWait}, 10/math.Pow(1.6, float64(i)), s.walk(0.8, 0.3))
	}
	return machine
}

// Of two runs of one program nothing differs, also where what it does changes slowly and the machine is a little faster in one.
// What a run does more is found by its name: a function that takes 4 % of the CPU time, on a quiet machine and beside another
// program, and goroutines that leak. What is said of a row never contradicts its interval.
func TestDiffSimulated(t *testing.T) {
	testenv.Again(t)
	const all = 40
	times := testenv.Times(testenv.Brief(10, 20), all)
	planted := diffKey{"main.planted", LevelTotal, WhatCPU}
	leak := diffKey{"[chan receive] main.leak", LevelSelf, WhatWait}
	for _, c := range []struct {
		what          string
		speed, spread float64
		plant         func(s *simulation, machine [2][]float64)
		name          string // the first one that differs; "": nothing does
		least         int
	}{
		{"nothing", 1, 0.05, nil, "", 38},
		{"nothing, on a faster machine", 1.08, 0.2, nil, "", 38},
		{"4 % of the CPU", 1, 0.05, func(s *simulation, machine [2][]float64) { s.add(1, planted, 0.016, machine[1]) }, planted.name, 36},
		{"4 % of the CPU, beside another program", 0.8, 0.3, func(s *simulation, machine [2][]float64) {
			for side := range 2 {
				s.add(side, diffKey{rowNoCore, LevelSelf, WhatWait}, []float64{0.2, 0.4}[side], s.walk(0.8, 0.3))
			}
			s.add(1, planted, 0.016, machine[1])
		}, planted.name, 28},
		{"a leak", 1, 0.05, func(s *simulation, _ [2][]float64) {
			for side, last := range []float64{100, 236} {
				grows := make([]float64, simulatedWindows)
				for i := range grows {
					grows[i] = float64(i+1) / simulatedWindows
				}
				s.add(side, leak, last, grows)
			}
		}, leak.name, all},
	} {
		right := 0
		for seed := range uint64(times) {
			s := simulate(1 + seed)
			machine := [2][]float64{s.program(0, 1, c.spread), s.program(1, c.speed, c.spread)}
			if c.plant != nil {
				c.plant(s, machine)
			}
			first, different := "", 0
			for _, r := range s.result() {
				if r.Tested && r.Significant != (r.Low > 0 || r.High < 0) || r.Significant != (r.P < 0.05) || r.Low > r.Delta || r.Delta > r.High {
					t.Errorf("%+v", r)
				}
				if r.Significant && r.Level != LevelWhole {
					if different++; different == 1 {
						first = r.Name
					}
				}
			}
			if first == c.name && (c.name != "" || different == 0) {
				right++
			}
		}
		if right*all < c.least*times {
			t.Errorf("%s: %d of %d are right", c.what, right, times)
		}
	}
}
