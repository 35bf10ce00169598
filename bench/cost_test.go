package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestCostTable measures the cost for a short time. The values depend on the machine, so the test
// only checks that there are some.
func TestCostTable(t *testing.T) {
	var out, progress strings.Builder
	err := bench(&out, &progress, []string{"-cost", "-goroutines=0,50", "-pairs=2", "-window=300ms", "-settle=50ms"})
	if !hasNative() {
		if err == nil {
			t.Error("no error without the native source")
		}
		return
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	rows := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(rows) != 6 || !strings.HasPrefix(rows[4], "| idle server | 1 % | ") || !strings.HasPrefix(rows[5], "| 50 | 1 % | ") {
		t.Fatalf("want two rows:\n%s", out.String())
	}
	for _, line := range rows[4:] {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != len(costHeader) {
			t.Fatalf("%d cells in %s", len(cells), line)
		}
		for i, cell := range cells {
			if empty := strings.Contains(cell, "–") || strings.Contains(cell, "NaN"); empty && costHeader[i] != "95 % interval" {
				t.Errorf("%s is %q", costHeader[i], cell)
			}
		}
	}
}

func TestMedianInterval(t *testing.T) {
	for _, c := range []struct{ n, low, high int }{{6, 1, 6}, {20, 6, 15}, {40, 14, 27}} { // tables of the sign test
		v := make([]float64, c.n)
		for i := range v {
			v[i] = float64(c.n - i)
		}
		got := medianInterval(v)
		if want := fmt.Sprint([]float64{float64(c.low), float64(c.n+1) / 2, float64(c.high)}); fmt.Sprint(got[:]) != want {
			t.Errorf("%d values: %v, want %s", c.n, got, want)
		}
	}
	if got := medianInterval([]float64{1, 2, 3}); !math.IsNaN(got[0]) || got[1] != 2 {
		t.Errorf("three values have the interval %v", got)
	}
}
