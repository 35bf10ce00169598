//go:build measure

package e2e

import (
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
)

// The last sample in the file of a killed program is at most 100 ms old.
func TestMeasureKilled(t *testing.T) {
	n := uint64(time.Now().UnixNano())
	measure.AtMost(t, "age of the last sample after kill -9, the oldest of four", "ms", 100, func() (oldest float64) {
		for range 4 {
			n++
			l := life{source: "auto", compression: "zstd", goroutines: 10, until: untilStart, delay: time.Duration(testenv.Mix(n) % uint64(500*time.Millisecond))}
			oldest = max(oldest, float64(l.kill(t).Microseconds())/1000)
		}
		return oldest
	})
}
