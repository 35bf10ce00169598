//go:build linux && (amd64 || arm64)

package native

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// TestCensus starts thousands of goroutines a second, beside some that stay. The integral of their number,
// as ticks read it, must be the sum of the times that they lived. The samples and the time that was not seen must
// add up to it.
func TestCensus(t *testing.T) {
	defer park(200)()
	var lived atomic.Int64
	var during, stalled time.Duration
	stay := 0
	began := time.Now()
	r, stats := session(t, source.Config{Budget: 1}, func() {
		random := rand.New(rand.NewPCG(5, 6))
		var all sync.WaitGroup
		begin := time.Now()
		for last := begin; time.Since(begin) < 3*time.Second; {
			stalled += max(0, time.Since(last)-5*time.Millisecond)
			last = time.Now()
			for range 5 {
				life := time.Duration(random.Int64N(int64(20 * time.Millisecond)))
				all.Add(1)
				born := time.Now()
				go func() {
					defer all.Done()
					time.Sleep(life)
					lived.Add(int64(time.Since(born)))
				}()
			}
			time.Sleep(time.Millisecond)
		}
		all.Wait()
		during = time.Since(begin)
		stay = runtime.NumGoroutine()
	})
	least := time.Duration(stay)*during + time.Duration(lived.Load())
	most := time.Duration(stay)*time.Since(began) + time.Duration(lived.Load())
	k := r.lacks
	var weights time.Duration
	for _, s := range r.samples {
		if !s.system && s.goroutine < tachyon.FirstPseudo {
			weights += s.weight
		}
	}
	t.Logf("%d goroutines stay, the others lived for %v; the integral is %v, want %v to %v; samples have %v, the profiler's goroutines %v, not seen %v; %+v",
		stay, time.Duration(lived.Load()), k.area, least, most, weights, k.owned, stats.NotSeen, stats)
	// When the process gets no core, ticks are late, and goroutines begin and end at the same moments.
	doubt := 0.01 + float64(stalled)/float64(during)/4
	t.Logf("stalled for %v", stalled)
	if float64(k.area) < (1-doubt)*float64(least) || float64(k.area) > (1+doubt)*float64(most) {
		t.Errorf("the integral of the number of goroutines is %v, they lived for %v to %v", k.area, least, most)
	}
	if sum := weights + k.owned + stats.NotSeen; float64(sum) < (1-doubt)*float64(k.area) || float64(sum) > (1+doubt)*float64(k.area) {
		t.Errorf("samples and what was not seen add up to %v, the integral of the number of goroutines is %v", sum, k.area)
	}
}

// TestLackBesideOthers has ten thousand goroutines that are there all the time. The error of the integral
// does not grow with their number.
func TestLackBesideOthers(t *testing.T) {
	const stay = 10_000
	for _, missing := range []time.Duration{0, time.Second} {
		d := &drain{s: new(shared), end: true}
		for now, area := 10*time.Millisecond, time.Duration(0); now <= 3*time.Second; now += 10 * time.Millisecond {
			begins := time.Duration(now/(10*time.Millisecond)%7) * 10
			area += (stay + begins) * 10 * time.Millisecond
			d.lacks.ticked(area, now, d.now)
			d.now = now
		}
		d.lacks.weights = d.lacks.area - missing
		d.notSeen = 0 // no look has found any of it
		if got := d.lack(); got != missing {
			t.Errorf("%v not seen, want %v", got, missing)
		}
	}
}

// TestLack has ten goroutines in a session of three seconds. Two of them have no sample.
func TestLack(t *testing.T) {
	d := &drain{s: new(shared)}
	gs := make([]goroutine, 8)
	for now := time.Second; now <= 3*time.Second; now += time.Second {
		d.now, d.lacks.area = now, 10*now
		d.end = now == 3*time.Second
		for i := range gs {
			if i == 0 && !d.end {
				continue // its first sample comes at the end
			}
			g := &gs[i]
			d.lacks.sampled(g, now, now)
			g.seen, g.last = true, now
		}
		// The latest figure counts only if the one before was as high.
		want := []time.Duration{0, 3 * time.Second, 6 * time.Second}[now/time.Second-1]
		if got := d.lack(); got != want {
			t.Errorf("after %v: %v not seen, want %v", now, got, want)
		}
	}
	for i := range gs {
		d.lacks.ended(&gs[i])
	}
	if d.lacks.living != 0 || d.lacks.last != 0 {
		t.Errorf("%d goroutines are left, with %v", d.lacks.living, d.lacks.last)
	}
}
