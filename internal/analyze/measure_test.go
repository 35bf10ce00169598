//go:build measure

package analyze

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/testenv/measure"
)

// recorder builds the program that makes the sessions. What it returns records one of them anew.
func recorder(t *testing.T) func(name string) *session {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "record")
	run := func(cmd *exec.Cmd) {
		t.Helper()
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
	}
	run(exec.Command("go", "build", "-trimpath", "-o", program, "./testdata/record"))
	return func(name string) *session {
		t.Helper()
		run(exec.Command(program, "-o", dir, name))
		return openSession(t, dir, name)
	}
}

// The holder that a profile shows is who the program's log says it was.
func TestMeasureHolders(t *testing.T) {
	record := recorder(t)
	for _, name := range []string{"two-of-one-type", "nested", "places"} {
		measure.AtMost(t, name+": ticks without the right holder", "%", 5, func() float64 {
			got, _ := record(name).compareHolders(t, LockOptions{Channels: name == "places", Source: sourceOfSessions})
			return 100 - 100*float64(got.right)/float64(got.all())
		})
	}
}

// Percentiles are those of the server's log, at the default budget. Others than the median have an error of chance too.
func TestMeasureRequests(t *testing.T) {
	record := recorder(t)
	measure.AtMost(t, "p50 and p90, off the log", "ms", 2, func() float64 {
		s := record("requests-default-budget")
		r := must(FindRequests(s.samples(t), RequestOptions{}))(t)
		return max((r.P50-s.logged(0.5)).Abs().Seconds(), (r.P90-s.logged(0.9)).Abs().Seconds()) * 1000
	})
}

// A run differs from the run before by what it does more, and two runs of one program do not.
func TestMeasureDiff(t *testing.T) {
	record := recorder(t)
	other := map[string]string{"before": "again", "again": "before"} // they are one program
	last := record("before")
	measure.AtMost(t, "5 ms more in each job, off the log, and differences that are none", "%", 2, func() float64 {
		before, after := last.samples(t), record("after")
		off := 100.0
		for _, r := range diff(t, before, after.samples(t), DiffOptions{}).Rows {
			if want := float64(after.truth.Waited) / float64(must(after.samples(t).length())(t)); r.Name == "[sleep] main.plantedRetry" {
				off = 100 * math.Abs(r.Delta/want-1)
			}
		}
		last = record(other[last.name]) // the next run compares with it too
		return off + 100*float64(len(significant(diff(t, before, last.samples(t), DiffOptions{}))))
	})
}
