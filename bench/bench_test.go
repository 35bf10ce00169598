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
)

func TestMain(m *testing.M) {
	if isChild() {
		os.Exit(beChild())
	}
	os.Exit(m.Run())
}

// hasNative reports whether gotach's native source exists on this system.
func hasNative() bool {
	return runtime.GOOS == "linux" && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64")
}

// TestTable measures each profiler for a short time and checks that the table is complete.
// Values depend on the machine and are not checked, except whether a profiler stops the
// world.
func TestTable(t *testing.T) {
	var out, progress strings.Builder
	args := []string{"-goroutines=200", "-pairs=1", "-settle=50ms"}
	err := bench(&out, &progress, append(args, "-window=300ms"))
	if err != nil && hasNative() {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	text := out.String()
	if !strings.HasPrefix(text, "<!-- bench -->\n"+runtime.Version()+" ") || !strings.HasSuffix(text, "\n<!-- /bench -->\n") {
		t.Errorf("no marks around the table:\n%s", text)
	}
	found := parseTable(text)
	for _, k := range profilers {
		if k.native() && !hasNative() || k.bare && runtime.GOOS != "linux" {
			continue
		}
		row := found[k.name]
		if row == nil || row["goroutines"] != "200" {
			t.Errorf("no row of %s with 200 goroutines", k.name)
			continue
		}
		for _, column := range header {
			if missing := row[column] == "–" || row[column] == ""; missing != noFigure(k, column) {
				t.Errorf("%s of %s is %q", column, k.name, row[column])
			}
		}
		stopsWorld := !k.native() && !k.inCPU && !k.bare
		if stopsWorld && row["stops/s"] == "0" {
			// On a busy machine there may have been no tick yet.
			var longer strings.Builder
			if err := bench(&longer, &progress, append(args, "-window=5s", "-profilers="+k.name)); err != nil {
				t.Error(err)
				continue
			}
			row = parseTable(longer.String())[k.name]
		}
		if stops := row["stops/s"] != "0"; stops != stopsWorld {
			t.Errorf("%s stops the world %s times a second", k.name, row["stops/s"])
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// parseTable returns the cells by profiler and column.
func parseTable(text string) map[string]map[string]string {
	rows := make(map[string]map[string]string)
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != len(header) || cells[0] == header[0] {
			continue
		}
		row := make(map[string]string)
		for i, c := range cells {
			row[header[i]] = c
		}
		rows[row["profiler"]] = row
	}
	return rows
}

// noFigure reports whether a cell has no figure.
func noFigure(k profilerKind, column string) bool {
	switch column {
	case "tick time":
		return k.stopsTwice || k.inCPU || k.name == "gotach portable" || (k.native() || k.bare) && !hasTimerThreads()
	case "CPU":
		return k.inCPU || runtime.GOOS != "linux"
	case "ticks":
		return k.bare
	case "gap p50", "gap p99":
		return k.stopsTwice || k.inCPU || k.bare
	case "written/s":
		return k.bare || k.name == "fgprof's loop" || k.name == "GoroutineProfile" || k.name == "Stack"
	case "memory":
		return runtime.GOOS != "linux"
	}
	return false
}

func hasTimerThreads() bool {
	_, err := os.Stat("/proc/self/timers")
	return err == nil
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

func TestCells(t *testing.T) {
	nan := math.NaN()
	reference := row{Setting: Setting{Profiler: "GoroutineProfile", Goroutines: 100_000}, Look: 130e-3}
	small := row{Setting: Setting{Profiler: "gotach native", Goroutines: 1000}, RSS: 10 << 20}
	r := row{
		Setting: Setting{Profiler: "gotach native", Goroutines: 100_000}, Asked: 1000,
		Look: 1.3e-3, CPU: 12.34e-6, Seen: 0.5, RSS: 100 << 20,
		Reached: 0.998, Gap: [2]float64{1e-3, nan}, Slowdown: [3]float64{-0.001, 0.004, 0.02},
		Stops: 0.001, Written: 2048,
	}
	want := "100,000|gotach native|1000|1.30 ms (1/100), of 50 %|12.3 µs|99.8 %|1.00 ms|–|0.4 % (-0.1…2.0)|1|2.00 KB|100 MB (953 B each)"
	if got := strings.Join(r.cells([]row{small, reference, r}), "|"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// BenchmarkProfilers measures each row once, in less time than the command takes.
func BenchmarkProfilers(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000, 100_000} {
		for _, k := range profilers {
			if k.native() && !hasNative() || k.bare && runtime.GOOS != "linux" {
				continue
			}
			b.Run(fmt.Sprintf("%s/goroutines=%d", k.name, n), func(b *testing.B) {
				var r row
				for range b.N {
					var err error
					r, err = run(Setting{Profiler: k.name, Goroutines: n, Rate: 1000, Pairs: 3, Window: time.Second, Settle: time.Second / 2})
					if err != nil {
						b.Fatal(err)
					}
				}
				report := func(v float64, unit string) {
					if !math.IsNaN(v) {
						b.ReportMetric(v, unit)
					}
				}
				report(0, "ns/op") // hides the time of the whole measurement
				report(r.Look*1e9, "tick-ns")
				report(r.CPU*1e9, "cpu-ns/tick")
				report(100*r.Reached, "ticks-%")
				report(r.Gap[0]*1e9, "gap-p50-ns")
				report(r.Gap[1]*1e9, "gap-p99-ns")
				report(100*r.Slowdown[1], "slowdown-%")
				report(r.Stops, "stops/s")
				report(r.Written, "B/s")
				report(r.RSS, "rss-B")
			})
		}
	}
}
