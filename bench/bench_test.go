package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
)

func TestMain(m *testing.M) {
	if isChild() {
		os.Exit(beChild())
	}
	os.Exit(m.Run())
}

// The table is that of three rows. Cells compare with GoroutineProfile at the same number of goroutines, and with the same
// profiler at 1,000 goroutines. What a profiler has no figure for is a dash.
func TestTable(t *testing.T) {
	nan := math.NaN()
	setting := func(profiler string, goroutines int) Setting {
		return Setting{Profiler: profiler, Goroutines: goroutines, Pairs: 20, Window: 500 * time.Millisecond}
	}
	rows := []row{
		{Setting: setting("gotach native", 1000), Asked: 1000, Look: 20e-6, CPU: nan, Seen: 1, RSS: 10 << 20, Reached: 1, Gap: [2]float64{1e-3, 1.5}},
		{Setting: setting("GoroutineProfile", 100_000), Asked: 1000, Look: 130e-3, CPU: 0.15, Seen: 1, RSS: 1000, Reached: nan,
			Gap: [2]float64{nan, nan}, Slowdown: [3]float64{0.37, 0.38, 0.43}, Stops: 587.2},
		{Setting: setting("gotach native", 100_000), Asked: 1000, Look: 1.3e-3, CPU: 12.34e-6, Seen: 0.5, RSS: 100 << 20, Reached: 0.998,
			Gap: [2]float64{1e-3, nan}, Slowdown: [3]float64{-0.001, 0.004, 0.02}, Stops: 0.001, Written: 2048},
		{Setting: setting("a thread", 1_000_000), Look: nan, CPU: nan, Seen: 1, RSS: nan, Reached: nan, Gap: [2]float64{nan, nan}, Slowdown: [3]float64{nan, nan, nan}},
	}
	want := fmt.Sprintf("<!-- bench -->\n%s %s/%s, %d CPUs; medians of 20 pairs of 500ms.\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0)) + `
| goroutines | profiler | Hz | tick time | CPU | ticks | gap p50 | gap p99 | slowdown | stops/s | written/s | memory |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
| 1,000 | gotach native | 1000 | 20.0 µs | – | 100.0 % | 1.00 ms | 1.50 s | 0.0 % (0.0…0.0) | 0 | – | 10.0 MB |
| 100,000 | GoroutineProfile | 1000 | 130 ms | 150 ms | – | – | – | 38.0 % (37.0…43.0) | 588 | – | 1000 B |
| 100,000 | gotach native | 1000 | 1.30 ms (1/100), of 50 % | 12.3 µs | 99.8 % | 1.00 ms | – | 0.4 % (-0.1…2.0) | 1 | 2.00 KB | 100 MB (953 B each) |
| 1,000,000 | a thread | 0 | – | – | – | – | – | – | 0 | – | – |
<!-- /bench -->
`
	testenv.Same(t, "the table", table(rows), want)
}

// A row is measured by a process of its own, which gets the setting and returns the row, or why there is none. The clients of the
// measurement of latency are another one.
func TestRun(t *testing.T) {
	s := Setting{Profiler: "Stack", Goroutines: 10, Rate: 1000, Pairs: 1, Window: 50 * time.Millisecond}
	r := testenv.Must(run(s))
	testenv.FailIf(t, r.Setting != s || r.Asked != s.Rate, "%+v", r)
	var table strings.Builder
	err := latencies(&table, io.Discard, profilers[:1], s)
	testenv.FailIf(t, err != nil || !strings.Contains(table.String(), "\n| gotach native | ") || strings.Contains(table.String(), "| – |"), "%v %s", err, &table)
	s.Profiler = "perf"
	testenv.Fails(t, "the process", testenv.Err(run(s)), `no profiler "perf"`)
}

func TestUsage(t *testing.T) {
	for _, args := range []string{"-goroutines=ten", "-goroutines=0", "-pairs=0", "-profilers=perf", "-cost -goroutines=-1", "-latency -profilers=perf", "-no-such-flag", "more"} {
		testenv.FailIf(t, bench(io.Discard, io.Discard, strings.Fields(args)) == nil, "no error for %s", args)
	}
}

func TestWithin(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	all := trace{ticks: []time.Time{at(1), at(2), at(4), at(5)}, looks: []time.Duration{1, 2, 4, 5}, samples: []int{1, 2, 4, 5}}
	in := all.within(at(2), at(5))
	testenv.Same(t, "ticks, looks and samples", fmt.Sprint(len(in.ticks), in.looks, in.samples), "2 [2ns 4ns] [2 4]")
	in = all.within(at(6), at(9))
	testenv.FailIf(t, len(in.ticks) != 0 || in.looks == nil, "%+v", in)
}

func TestQuantile(t *testing.T) {
	v := []float64{4, 1, 3, 2, 5}
	for q, want := range map[float64]float64{0: 1, 0.25: 2, 0.5: 3, 0.99: 4.96, 1: 5} {
		testenv.Within(t, fmt.Sprint("quantile ", q), quantile(v, q), want-1e-9, want+1e-9)
	}
	testenv.FailIf(t, v[0] != 4 || !math.IsNaN(quantile(nil, 0.5)), "quantile changes its argument, or the median of an empty slice is not NaN")
}

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
	testenv.FailIf(t, !strings.HasSuffix(first, " CPUs; medians of 6 pairs of 1s, 1000 Hz asked, load 40 % of each core."), "%v", first)
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
	got := medianInterval([]float64{1, 2, 3})
	testenv.FailIf(t, !math.IsNaN(got[0]) || got[1] != 2, "three values have the interval %v", got)
}
