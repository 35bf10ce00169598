package portable

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/gotach/profiler/sampler/internal/source"
)

// BenchmarkTick measures one tick, including runtime.Stack, by the number of parked goroutines.
func BenchmarkTick(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			stop, parked := make(chan bool), make(chan bool)
			defer close(stop)
			for range n {
				go func() {
					parked <- true
					<-stop
				}()
				<-parked
			}
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

// BenchmarkParse measures the cost of parsing, per goroutine: one that is unchanged since the last
// tick, and one with new arguments in all its frames.
func BenchmarkParse(b *testing.B) {
	text, err := os.ReadFile("testdata/stacks/go1.26-labels.txt")
	if err != nil {
		b.Fatal(err)
	}
	for _, mode := range []string{"unchanged", "changed"} {
		b.Run(mode, func(b *testing.B) {
			var s snapshot
			s.init(new(quiet), true)
			s.read(text, true)
			b.ReportAllocs()
			for b.Loop() {
				if mode == "changed" {
					for _, g := range s.known {
						g.body++
					}
				}
				s.read(text, true)
				s.emit(0, 2, rand.IntN)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.goroutines), "ns/goroutine")
		})
	}
}
