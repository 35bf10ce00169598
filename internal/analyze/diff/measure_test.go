//go:build measure

package diff

import (
	"math"
	"testing"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
)

// A run differs from the run before by what it does more, and two runs of one program do not.
func TestMeasureDiff(t *testing.T) {
	record := analyzetest.Recorder(t)
	other := map[string]string{"before": "again", "again": "before"} // they are one program
	last := record("before")
	measure.AtMost(t, "5 ms more in each job, off the log, and differences that are none", "%", 2, func() float64 {
		before, after := last.Samples(t), record("after")
		off := 100.0
		for _, r := range diff(t, before, after.Samples(t), Options{}).Rows {
			if want := float64(after.Truth.Waited) / float64(testenv.Must(after.Samples(t).Length())); r.Name == "[sleep] main.plantedRetry" {
				off = 100 * math.Abs(r.Delta/want-1)
			}
		}
		last = record(other[last.Name]) // the next run compares with it too
		return off + 100*float64(len(significant(diff(t, before, last.Samples(t), Options{}))))
	})
}
