//go:build measure && !race && linux && (amd64 || arm64)

package native

import (
	"bytes"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/felixge/fgprof"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
	"github.com/gotach/profiler/sampler/internal/source"
)

//go:noinline
func napping(d time.Duration) { time.Sleep(d) }

//go:noinline
func selecting(d time.Duration) {
	select {
	case <-time.After(d):
	case <-make(chan int):
	}
}

//go:noinline
func locking(d time.Duration) {
	var m sync.Mutex
	m.Lock()
	time.AfterFunc(d, m.Unlock)
	m.Lock()
}

// waiter waits in several ways, in some of them more often, at most for the duration most each time.
//
//go:noinline
func waiter(seed uint64, most time.Duration, stop *atomic.Bool) {
	random := rand.New(rand.NewPCG(seed, 1))
	for !stop.Load() {
		d := time.Duration(random.Int64N(int64(most)))
		switch n := random.IntN(100); {
		case n < 50:
			napping(d)
		case n < 80:
			selecting(d)
		default:
			locking(d)
		}
	}
}

// TestMeasureFgprof compares the shares of waiting time with those of fgprof in the same run, at the rate that fgprof
// recommends. So many goroutines are visited in turns, and the runtime has even more gs of ended ones.
func TestMeasureFgprof(t *testing.T) {
	park(30_000)()
	defer park(3000)()
	measure.AtMost(t, "shares of waiting beside fgprof's", "points", 1.5, func() float64 {
		var buf bytes.Buffer
		r, _ := session(t, source.Config{Budget: 10, WaitFrames: true}, func() {
			end := fgprof.Start(&buf, fgprof.FormatPprof)
			var stop atomic.Bool
			var all sync.WaitGroup
			for i := range 400 {
				all.Go(func() { waiter(uint64(i), 100*time.Millisecond, &stop) })
			}
			time.Sleep(3 * time.Second)
			stop.Store(true)
			all.Wait()
			testenv.OK(t, end())
		})
		got, want := newShares(".waiter"), pprofShares(t, buf.Bytes(), ".waiter")
		for _, s := range r.samples {
			got.add(names(s.stack), float64(s.weight))
		}
		for _, way := range []string{"napping", "selecting", "locking"} {
			if got.cum[here+way] == 0 || want.cum[here+way] == 0 {
				t.Errorf("no samples of %s", way)
			}
		}
		// Samples do not have the runtime's innermost functions.
		got.flat, want.flat = nil, nil
		return got.apart(want, 0.005)
	})
}

//go:noinline
func lives5ms() { time.Sleep(5 * time.Millisecond) }

//go:noinline
func lives200ms() { time.Sleep(200 * time.Millisecond) }

// TestMeasureShortLives has short-lived goroutines among thousands of others that are visited twice a second, in
// a program that once had even more. The samples of the short-lived ones must have their full time.
func TestMeasureShortLives(t *testing.T) {
	free := park(20_000)
	defer park(3000)()
	free()
	measure.AtMost(t, "time of short-lived goroutines", "%", 15, func() (worst float64) {
		lives := []struct {
			name  string
			wait  func()
			count int          // goroutines that begin at the same time
			lived atomic.Int64 // sum of their lifetimes, ns, by their own clock
		}{{name: "lives5ms", wait: lives5ms, count: 5}, {name: "lives200ms", wait: lives200ms, count: 1}}
		r, _ := session(t, source.Config{Budget: 1, Rate: 100}, func() {
			var all sync.WaitGroup
			for until := time.Now().Add(2 * time.Second); time.Now().Before(until); time.Sleep(3 * time.Millisecond) {
				for i := range lives {
					l := &lives[i]
					for range l.count {
						all.Go(func() {
							begin := time.Now()
							l.wait()
							l.lived.Add(int64(time.Since(begin)))
						})
					}
				}
			}
			all.Wait()
		})
		got := newShares("")
		for _, s := range r.samples {
			got.add(names(s.stack), float64(s.weight))
		}
		for i := range lives {
			worst = max(worst, 100*math.Abs(got.cum[here+lives[i].name]/float64(lives[i].lived.Load())-1))
		}
		return worst
	})
}
