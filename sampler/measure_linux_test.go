//go:build measure && (amd64 || arm64)

package sampler

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
)

// TestMeasureAccounted compares the time for which short goroutines lived, by their own clocks, with the weights of
// their samples and what the session says that it has not seen.
func TestMeasureAccounted(t *testing.T) {
	for parked, bound := range map[int]float64{0: 3, 10_000: 5} {
		measure.AtMost(t, fmt.Sprintf("difference of sampled and lived time beside %d goroutines", parked), "%", bound, func() float64 {
			end := make(chan bool)
			defer close(end)
			for range parked {
				go func() { <-end }()
			}
			var m memory
			s := testenv.Must(Start(Config{Source: Native}, &m))
			lived := churn(5000)
			stop(t, s)
			sampled, last := s.Stats().NotSeen, map[uint64]uint64{}
			for _, g := range m.whole(s).goroutines() {
				if g.CreatedBy == "sync.(*WaitGroup).Go" {
					last[g.ID] = uint64(s.start.UnixMicro()) + g.First - cmp.Or(g.FirstWeight, 1000)
				}
			}
			for _, p := range m.samples {
				if before, ok := last[p.Thread]; ok {
					sampled += time.Duration(p.Time-before) * time.Microsecond
					last[p.Thread] = p.Time
				}
			}
			return 100 * math.Abs(sampled.Seconds()/lived.Seconds()-1)
		})
	}
}

// churn starts so many goroutines within a second, which live for 0.1 to 20 ms, and waits until they have ended.
func churn(n int) time.Duration {
	random := rand.New(rand.NewPCG(1, 2))
	var lived atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for i := 0; i < n; time.Sleep(300 * time.Microsecond) {
		for ; i < min(n, int(time.Since(begin).Seconds()*float64(n))); i++ {
			life, born := 100*time.Microsecond+time.Duration(random.Int64N(int64(19_900*time.Microsecond))), time.Now()
			all.Go(func() {
				if life%3 == 0 { // computes first
					for until := born.Add(min(life, 60*time.Microsecond)); time.Now().Before(until); {
					}
				}
				time.Sleep(time.Until(born.Add(life)))
				lived.Add(int64(time.Since(born)))
			})
		}
	}
	all.Wait()
	return time.Duration(lived.Load())
}
