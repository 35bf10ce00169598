//go:build measure

package requests

import (
	"testing"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
)

// Percentiles are those of the server's log, at the default budget. Others than the median have an error of chance too.
func TestMeasureRequests(t *testing.T) {
	record := analyzetest.Recorder(t)
	measure.AtMost(t, "p50 and p90, off the log", "ms", 2, func() float64 {
		s := record("requests-default-budget")
		r := testenv.Must(Find(s.Samples(t), Options{}))
		return max((r.P50-s.Logged(0.5)).Abs().Seconds(), (r.P90-s.Logged(0.9)).Abs().Seconds()) * 1000
	})
}
