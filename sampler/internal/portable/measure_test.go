//go:build measure

package portable

import (
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// TestMeasureCPU compares the samples on the CPU with what the process used, with three times as many goroutines as
// cores.
func TestMeasureCPU(t *testing.T) {
	measure.AtMost(t, "error of the CPU time of all samples", "%", 2, func() float64 {
		s, r := New(), newRecorder()
		testenv.OK(t, s.Start(source.Config{Rate: 200, Budget: 5, MaxPause: 10 * time.Millisecond, Start: time.Now()}, r))
		begin, known := processTime()
		testenv.StopIf(t, !known, "this system does not say what a process uses")
		var all sync.WaitGroup
		for range 3 * runtime.GOMAXPROCS(0) {
			all.Go(func() {
				for until := time.Now().Add(time.Second); time.Now().Before(until); {
				}
			})
		}
		all.Wait()
		used, _ := processTime()
		s.Stop()
		used -= begin
		sum, last := time.Duration(0), map[uint64]time.Duration{}
		for _, s := range append(r.samples, r.process...) {
			weight := s.Gap
			if before, ok := last[s.Goroutine]; ok {
				weight = s.Time - before
			}
			last[s.Goroutine] = s.Time
			if s.Status&tachyon.OnCPU != 0 {
				sum += weight
			}
		}
		return 100 * math.Abs(float64(sum)/float64(used)-1)
	})
}
