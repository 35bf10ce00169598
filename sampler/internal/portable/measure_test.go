//go:build measure

package portable

import (
	"fmt"
	"math"
	"os/exec"
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
		if !known {
			t.Fatal("this system does not say what a process uses")
		}
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

// TestMeasureBusyMachine has four spinning processes beside it. There are five looks a second, or as many as the budget
// pays for if they are fewer, with and without a clock for the CPU time of the thread.
func TestMeasureBusyMachine(t *testing.T) {
	for _, n := range []int{15, 1000}[:testenv.Times(1, 2)] {
		for name, clock := range map[string]func() (time.Duration, bool){
			"thread": threadTime,
			"wall":   func() (time.Duration, bool) { return 0, false },
		} {
			t.Run(fmt.Sprintf("%d goroutines, %s clock", n, name), func(t *testing.T) {
				defer park(n, 0)()
				measure.AtMost(t, "looks asked for each look", "", 1.25, func() float64 {
					for range 4 {
						spin := exec.Command("sh", "-c", "while :; do :; done")
						testenv.OK(t, spin.Start())
						defer spin.Wait()
						defer spin.Process.Kill()
					}
					_, paid := looks(t, threadTime)
					looks, _ := looks(t, clock)
					t.Logf("%.1f looks a second; the budget pays for %.1f", looks, paid)
					return min(5, paid) / looks
				})
			})
		}
	}
}

// looks runs a session at the default rate and budget. It returns how many looks there were in a second, and how many
// the budget pays for at their mean cost.
func looks(t *testing.T, clock func() (time.Duration, bool)) (perSecond, paid float64) {
	const budget = 1
	length := testenv.Times(2*time.Second, 5*time.Second)
	threadClock = clock
	defer func() { threadClock = threadTime }()
	s := New()
	testenv.OK(t, s.Start(source.Config{Rate: 1000, Budget: budget, MaxPause: 10 * time.Millisecond, Start: time.Now()}, newQuiet()))
	time.Sleep(length)
	st := s.Stats()
	s.Stop()
	perSecond = float64(st.TicksReached) / length.Seconds()
	return perSecond, float64(st.TicksReached) * budget / 100 * float64(runtime.GOMAXPROCS(0)) / st.Cost.Seconds()
}
