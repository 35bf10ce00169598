package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestJudge(t *testing.T) {
	script := func(values ...float64) func() float64 {
		n := -1
		return func() float64 { n++; return values[n%len(values)] }
	}
	for _, test := range []struct {
		name string
		once func() float64
		want answer
	}{
		{"at the bound", script(1), holds},
		{"one run outside", script(2, 0.5, 0.5, 0.5, 0.5, 0.5), holds},
		{"two runs within half of the bound", script(0.5, 0.5, 2, 2, 2, 2, 2, 2, 2, 2, 2), holds},
		{"two runs, one within half of the bound", script(0.5, 0.6, 2, 2, 2, 2, 2, 2, 2, 2, 2), broken},
		{"outside", script(1.01), broken},
		{"not a number", script(math.NaN()), broken},
		{"every second run", script(0, 2), noisy},
	} {
		if got := judge(1, toPass, test.once); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

// Right code, four of five runs of which are within the bound, fails less than once in 10,000.
func TestJudgeByChance(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	count := map[answer]int{}
	const times = 1_000_000
	for range times {
		count[judge(0.8, toPass, random.Float64)]++
	}
	if count[broken] > times/10_000 || count[holds] < times*9/10 {
		t.Errorf("of %d: %d hold, %d broken, %d too noisy", times, count[holds], count[broken], count[noisy])
	}
}
