package main

import (
	"fmt"
	"math"
	"runtime"
	"strings"
)

var header = []string{"goroutines", "profiler", "Hz", "tick time", "CPU", "ticks", "gap p50", "gap p99", "slowdown", "stops/s", "written/s", "memory"}

// table returns rows as a Markdown table between two marks.
func table(rows []row) string {
	var b strings.Builder
	b.WriteString("<!-- bench -->\n")
	if len(rows) > 0 {
		r := rows[0]
		fmt.Fprintf(&b, "%s %s/%s, %d CPUs; medians of %d pairs of %v.\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), r.Pairs, r.Window)
	}
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(header)
	b.WriteString(strings.Repeat("|---", 2) + strings.Repeat("|--:", len(header)-2) + "|\n")
	for _, r := range rows {
		line(r.cells(rows))
	}
	b.WriteString("<!-- /bench -->\n")
	return b.String()
}

// cells returns the cells of the row. all has the other rows, for comparisons.
func (r *row) cells(all []row) []string {
	look := seconds(r.Look)
	for _, other := range all {
		if other.Profiler == "GoroutineProfile" && other.Goroutines == r.Goroutines && strings.HasPrefix(r.Profiler, nativeName) && r.Look > 0 {
			look += fmt.Sprintf(" (1/%.0f)", other.Look/r.Look)
		}
	}
	if r.Seen < 0.95 {
		look += fmt.Sprintf(", of %.0f %%", 100*r.Seen)
	}
	slowdown := "–"
	if !math.IsNaN(r.Slowdown[1]) {
		slowdown = fmt.Sprintf("%.1f %% (%.1f…%.1f)", 100*r.Slowdown[1], 100*r.Slowdown[0], 100*r.Slowdown[2])
	}
	memory := size(r.RSS)
	for _, other := range all {
		if other.Profiler == r.Profiler && other.Goroutines == 1000 && r.Goroutines > 1000 {
			memory += fmt.Sprintf(" (%s each)", size((r.RSS-other.RSS)/float64(r.Goroutines-1000)))
		}
	}
	written := "–"
	if r.Written > 0 {
		written = size(r.Written)
	}
	return []string{
		thousands(float64(r.Goroutines)),
		r.Profiler,
		fmt.Sprint(r.Asked),
		look,
		seconds(r.CPU),
		number("%.1f %%", 100*r.Reached),
		seconds(r.Gap[0]),
		seconds(r.Gap[1]),
		slowdown,
		thousands(math.Ceil(r.Stops)), // rounded up, so that only 0 is shown as 0
		written,
		memory,
	}
}

func number(format string, v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return fmt.Sprintf(format, v)
}

// seconds writes a time with three digits.
func seconds(s float64) string {
	switch {
	case math.IsNaN(s):
		return "–"
	case s < 1e-3:
		return digits(s*1e6) + " µs"
	case s < 1:
		return digits(s*1e3) + " ms"
	}
	return digits(s) + " s"
}

func size(bytes float64) string {
	switch a := math.Abs(bytes); {
	case math.IsNaN(a):
		return "–"
	case a < 1<<10:
		return fmt.Sprintf("%.0f B", bytes)
	case a < 1<<20:
		return digits(bytes/(1<<10)) + " KB"
	}
	return digits(bytes/(1<<20)) + " MB"
}

func digits(v float64) string {
	switch a := math.Abs(v); {
	case a < 9.995:
		return fmt.Sprintf("%.2f", v)
	case a < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func thousands(v float64) string {
	s := number("%.0f", v)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
