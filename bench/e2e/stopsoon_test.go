//go:build measure

package e2e

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
)

// Before it ends, the native source visits all goroutines once more, for 400 ms at most. One tick is mostly
// enough, also if the only goroutines that have moved lately have ended.
func TestMeasureStopSoon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	end := make(chan bool)
	defer close(end)
	go func() { <-end }()
	measure.AtMost(t, "Stop right after Start, the median of 11", "ms", 100, func() float64 {
		var took []time.Duration
		for range 11 {
			s := profiler.Start(profiler.Output(path), profiler.Rate(10000))
			timer := time.AfterFunc(time.Minute, func() {})
			begin := time.Now()
			testenv.OK(t, s.Stop())
			took = append(took, time.Since(begin))
			timer.Stop()
		}
		slices.Sort(took)
		return float64(took[len(took)/2].Microseconds()) / 1000
	})
}
