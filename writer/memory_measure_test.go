//go:build measure

package writer

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
	"github.com/gotach/profiler/tachyon"
)

func heap() float64 {
	runtime.GC()
	runtime.GC() // a sync.Pool keeps its content for one collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// A writer takes at most 16 MB with 1,000 threads and at most 1 KB for each further thread, for any
// length of the runs of repeats, also if threads begin one after the other: then each holds back as
// much as its share allows at that time.
func TestMeasureMemory(t *testing.T) {
	for _, c := range []struct{ threads, ticks, period int }{ // stacks of 38 frames change at every period-th tick
		{1000, 300, 3}, {100_000, 12, 4}, {1000, 8000, 1 << 30}, // the last one: one thread after the other
	} {
		bound := 16 + float64(c.threads-1000)/1024
		measure.SizeAtMost(t, fmt.Sprintf("heap of a writer with %d threads, %d ticks", c.threads, c.ticks), "MB", bound, func() float64 {
			before := heap()
			w := testenv.Must(New(new(void), Options{}))
			for i := range 5000 {
				w.Intern(tachyon.Frame{File: "file.go", Func: fmt.Sprintf("function%d", i), Line: int32(i)})
			}
			stack := make([]uint32, 38)
			for i := range c.threads * c.ticks {
				thread, tick := i%c.threads, i/c.threads
				if c.ticks < c.period {
					thread, tick = i/c.ticks, i%c.ticks
				}
				for d := range stack {
					stack[d] = uint32((tick/c.period + thread + d*131) % 5000)
				}
				testenv.OK(t, w.Write(&tachyon.Sample{Thread: uint64(thread), Time: uint64(tick) * 1000, Stack: stack}))
			}
			used := heap() - before
			testenv.OK(t, w.Close())
			return used
		})
	}
}
