//go:build measure

package e2e

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv/measure"
)

// The last sample in the file of a killed program is at most 100 ms old. TestCrashLoop holds that what was passed on is in the file.
func TestMeasureKilled(t *testing.T) {
	measure.AtMost(t, "age of the last sample after kill -9, the oldest of four", "ms", 100, func() (oldest float64) {
		for range 4 {
			_, p, _, at := killed(t, true, 500*time.Millisecond, "GOTACH_TEST_LOOP=goes on", "PROFILE_OUT="+filepath.Join(t.TempDir(), "x.tach"))
			oldest = max(oldest, float64(at.UnixMicro()-int64(p.last))/1000)
		}
		return oldest
	})
}
