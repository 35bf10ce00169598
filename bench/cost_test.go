package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
)

// The costs of an idle server are shares of a core. Without an interval there are dashes.
func TestCostTable(t *testing.T) {
	nan := math.NaN()
	setting := CostSetting{Rate: 1000, Budget: 1, Pairs: 6, Window: time.Second, Load: 0.4}
	busy := setting
	busy.Goroutines, busy.Budget = 1000, 2.5
	got := costTable([]costRow{
		{CostSetting: setting, Outside: [3]float64{nan, 0.0012, nan}, Beside: [3]float64{nan, 0.001, nan}, Own: 0.0009, Alone: 0.0001,
			Reached: 0.1, Idle: 0.9, Gap: [2]float64{1e-3, 1}, StartEnd: 0.02},
		{CostSetting: busy, Outside: [3]float64{0.007, 0.0081, 0.012}, Beside: [3]float64{-0.001, 0.002, 0.005}, Own: 0.008, Alone: 0.41,
			Reached: 0.25, Rarer: 0.75, Gap: [2]float64{2e-3, nan}, StartEnd: 0.1},
	})
	first, rest, _ := strings.Cut(got, "\n")
	if !strings.HasSuffix(first, " CPUs; medians of 6 pairs of 1s, 1000 Hz asked, load 40 % of each core.") {
		t.Error(first)
	}
	const want = `
| goroutines | budget | cost from outside | 95 % interval | beside the load | 95 % interval | its own figure | without a session | ticks reached | left out for the budget | left out while idle | gap p50 | gap p99 | Start and Stop |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
| idle server | 1 % | 0.12 % of a core | –…– | 0.10 % | –…– | 0.09 % | 0.01 % | 10.0 % | 0.0 % | 90.0 % | 1.00 ms | 1.00 s | 20.0 ms |
| 1,000 | 2.5 % | 0.81 % | 0.70…1.20 | 0.20 % | -0.10…0.50 | 0.80 % | 41.00 % | 25.0 % | 75.0 % | 0.0 % | 2.00 ms | – | 100 ms |
`
	testenv.Same(t, "the table", rest, want)
}

func TestMedianInterval(t *testing.T) {
	for _, c := range []struct{ n, low, high int }{{6, 1, 6}, {20, 6, 15}, {40, 14, 27}} { // tables of the sign test
		v := make([]float64, c.n)
		for i := range v {
			v[i] = float64(c.n - i)
		}
		got := medianInterval(v)
		testenv.Same(t, c.n, fmt.Sprint(got[:]), fmt.Sprint([]float64{float64(c.low), float64(c.n+1) / 2, float64(c.high)}))
	}
	if got := medianInterval([]float64{1, 2, 3}); !math.IsNaN(got[0]) || got[1] != 2 {
		t.Errorf("three values have the interval %v", got)
	}
}
