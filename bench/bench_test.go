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

// A row is measured by a process of its own, which gets the setting and returns the row, or why there is none.
func TestRun(t *testing.T) {
	s := Setting{Profiler: "Stack", Goroutines: 10, Rate: 1000, Pairs: 1, Window: 10 * time.Millisecond}
	if r, err := run(s); err != nil || r.Setting != s || r.Asked != s.Rate {
		t.Errorf("%+v, %v", r, err)
	}
	s.Profiler = "perf"
	if _, err := run(s); err == nil || !strings.Contains(err.Error(), `no profiler "perf"`) {
		t.Errorf("the error of the process is %v", err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range []string{"-goroutines=ten", "-goroutines=0", "-pairs=0", "-profilers=perf", "-cost -goroutines=-1", "-no-such-flag", "more"} {
		if err := bench(io.Discard, io.Discard, strings.Fields(args)); err == nil {
			t.Errorf("no error for %s", args)
		}
	}
}

func TestWithin(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	all := trace{ticks: []time.Time{at(1), at(2), at(4), at(5)}, looks: []time.Duration{1, 2, 4, 5}, samples: []int{1, 2, 4, 5}}
	in := all.within(at(2), at(5))
	if got := fmt.Sprint(len(in.ticks), in.looks, in.samples); got != "2 [2ns 4ns] [2 4]" {
		t.Error(got)
	}
	if in := all.within(at(6), at(9)); len(in.ticks) != 0 || in.looks == nil {
		t.Errorf("%+v", in)
	}
}

func TestQuantile(t *testing.T) {
	v := []float64{4, 1, 3, 2, 5}
	for q, want := range map[float64]float64{0: 1, 0.25: 2, 0.5: 3, 0.99: 4.96, 1: 5} {
		if got := quantile(v, q); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if v[0] != 4 || !math.IsNaN(quantile(nil, 0.5)) {
		t.Error("quantile changes its argument, or the median of an empty slice is not NaN")
	}
}
