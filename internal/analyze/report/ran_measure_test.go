//go:build measure

package report

import (
	"context"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
)

// A noisy neighbour with a label computes in bursts, with four goroutines for each core. Others with another label wake every millisecond. Outside of the
// bursts they are hardly ever runnable, so the neighbour causes nearly all of that time, and it is charged to it. What is not is given in percent.
func TestMeasureNoisyNeighbour(t *testing.T) {
	measure.AtMost(t, "runnable time that is not charged to who causes it", "%", 10, func() float64 {
		path := filepath.Join(t.TempDir(), "x.tach")
		session := testenv.Must(profiler.Open(profiler.Output(path)))
		var all sync.WaitGroup
		var stop atomic.Bool
		with := func(tenant string, do func()) {
			all.Go(func() {
				pprof.Do(context.Background(), pprof.Labels("tenant", tenant), func(context.Context) {
					for !stop.Load() {
						do()
					}
				})
			})
		}
		for range 4 * runtime.GOMAXPROCS(0) {
			with("bulk", func() {
				for begun := time.Now(); time.Since(begun) < 100*time.Millisecond; {
				}
				time.Sleep(100*time.Millisecond - time.Duration(time.Now().UnixNano())%(100*time.Millisecond) + 100*time.Millisecond)
			})
		}
		for range 8 {
			with("small", func() { time.Sleep(time.Millisecond) })
		}
		time.Sleep(2 * time.Second)
		stop.Store(true)
		all.Wait()
		testenv.OK(t, session.Stop())
		f := testenv.Closes(t, testenv.Must(reader.Open(path)))
		o := Options{Group: ByRan}
		so := o.Stream()
		so.Select = &stream.Selection{Labels: []stream.Label{{Key: "tenant", Value: "small"}}, States: []string{profile.Runnable}}
		report, rows := reportOf(t, analyzetest.SamplesOf(t, so, f).Source, o, profile.ReportOptions{By: profile.ByGroup})
		testenv.StopIf(t, report.Total == 0, "nothing was runnable")
		t.Logf("%v: %v", report.Total, rows)
		return 100 * (1 - float64(rows["label tenant=bulk"].Self)/float64(report.Total))
	})
}
