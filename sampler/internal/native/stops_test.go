//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
)

// TestCountStops gives the counter's values at visits, and what is counted from them.
func TestCountStops(t *testing.T) {
	type visit struct {
		ms   int
		seq  uint8
		want source.Stops
	}
	for name, visits := range map[string][]visit{
		"the first visit is where counting begins": {{0, 77, source.Stops{}}, {4, 80, source.Stops{N: 3}}, {8, 80, source.Stops{}}},
		"past 255":                          {{0, 250, source.Stops{}}, {4, 4, source.Stops{N: 10}}},
		"too many to know":                  {{0, 10, source.Stops{}}, {4, 10 + mostStops, source.Stops{N: mostStops, AtLeast: true}}},
		"just not":                          {{0, 10, source.Stops{}}, {4, 10 + mostStops - 1, source.Stops{N: mostStops - 1}}},
		"after a long time":                 {{0, 10, source.Stops{}}, {400, 35, source.Stops{N: 25, AtLeast: true}}, {404, 36, source.Stops{N: 1}}},
		"few after a long time":             {{0, 10, source.Stops{}}, {400, 12, source.Stops{N: 2}}},
		"at the pace of the last one":       {{0, 0, source.Stops{}}, {4, 100, source.Stops{N: 100}}, {16, 110, source.Stops{N: 10, AtLeast: true}}},
		"after a long time at a known pace": {{0, 0, source.Stops{}}, {10, 10, source.Stops{N: 10}}, {110, 115, source.Stops{N: 105}}, {210, 255, source.Stops{N: 140}}, {310, 150, source.Stops{N: 151}}},
		"none":                              {{0, 3, source.Stops{}}, {5000, 3, source.Stops{}}},
	} {
		var g stops
		for _, v := range visits {
			r := make(record, headWords)
			r[headKind] = goruntime.GWaiting << 32
			r[headCounts] = uint64(v.seq) << 56
			g.count(r, time.Duration(v.ms)*time.Millisecond)
			if got := g.untold; got != v.want {
				t.Errorf("%s: after %d ms %+v, want %+v", name, v.ms, got, v.want)
			}
			g.untold = source.Stops{}
		}
	}
	// A thread's record of its own goroutine may be older than the visit before it.
	var g stops
	r := make(record, headWords)
	r[headKind], r[headCounts] = goruntime.GWaiting<<32, 9<<56
	g.count(r, time.Millisecond)
	r[headKind], r[headCounts], r[headRuns] = goruntime.GSyscall<<32|flagTaken<<48, 0, 8
	g.count(r, 2*time.Millisecond)
	r[headKind], r[headCounts], r[headRuns] = goruntime.GWaiting<<32, 11<<56, 0
	if g.count(r, 3*time.Millisecond); g.untold != (source.Stops{N: 2}) {
		t.Errorf("with a record of the goroutine's own thread: %+v", g.untold)
	}
}

// stopper stops 100 times, then waits until it may go on.
//
//go:noinline
func stopper(rounds chan struct{}) {
	for range rounds {
		for range 100 {
			time.Sleep(time.Microsecond)
		}
	}
}

// TestStops counts the stops of a goroutine that is known to stop 101 times a round: 100 times it sleeps, then it waits for the next round,
// which begins when these are counted. The scheduler may preempt it besides, and the collector to look at its stack.
func TestStops(t *testing.T) {
	var counted, seen atomic.Int64
	r := newRecorder()
	r.keep = func(s *taken) bool {
		if slices.ContainsFunc(names(s.stack), func(f string) bool { return strings.HasSuffix(f, ".stopper") }) {
			counted.Add(int64(s.stops.N))
			seen.Add(1)
		}
		return false
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begun := time.Now()
	sessionWith(t, source.Config{Budget: 50, WaitFrames: true}, r, func() {
		rounds := make(chan struct{})
		go stopper(rounds)
		testenv.Await(func() bool { return seen.Load() > 0 })
		for i := range int64(3) {
			rounds <- struct{}{}
			testenv.Await(func() bool { return counted.Load() >= (i+1)*101 })
		}
		close(rounds)
	})
	runtime.ReadMemStats(&after)
	most := 303 + int64(time.Since(begun)/(10*time.Millisecond)) + 4*int64(after.NumGC-before.NumGC+1)
	if n := counted.Load(); n < 303 || n > most {
		t.Errorf("%d stops are counted of 303 and what the scheduler may add: %d", n, most)
	}
}
