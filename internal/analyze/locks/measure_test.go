//go:build measure

package locks

import (
	"testing"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/testenv/measure"
)

// The holder that a profile shows is who the program's log says it was.
func TestMeasureHolders(t *testing.T) {
	record := analyzetest.Recorder(t)
	for _, name := range []string{"two-of-one-type", "nested", "places"} {
		measure.AtMost(t, name+": ticks without the right holder", "%", 5, func() float64 {
			got, _ := compareHolders(t, record(name), Options{Channels: name == "places", Source: analyzetest.SourceOfSessions})
			return 100 - 100*float64(got.right)/float64(got.all())
		})
	}
}
