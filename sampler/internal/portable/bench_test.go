package portable

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/gotach/profiler/sampler/internal/source"
)

// BenchmarkTick measures one tick, including runtime.Stack, by the number of parked goroutines.
func BenchmarkTick(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			defer park(n, 0)()
			s := New()
			s.cfg, s.out = source.Config{Start: time.Now()}, new(quiet)
			s.limit = newLimit(time.Minute)
			s.buf = make([]byte, n*perGoroutine+minBuffer)
			s.snapshot.init(s.out, true)
			procs := runtime.GOMAXPROCS(0)
			s.tick(procs, false)
			b.ReportAllocs()
			for b.Loop() {
				s.tick(procs, false)
			}
			if d := s.dropped.Load(); d != 0 {
				b.Fatal(d, "dropped")
			}
		})
	}
}
