//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// burn uses the CPU for d and returns the time that it took: on a busy machine the thread may have to wait
// for a core just before the end.
//
//go:noinline
func burn(d time.Duration) time.Duration {
	n := 1
	start := time.Now()
	for time.Since(start) < d {
		for i := range 2000 {
			n += i * n
		}
	}
	burnt.Store(int64(n))
	return time.Since(start)
}

var burnt atomic.Int64 // keeps the work from being optimised away, and calls from being tail calls

//go:noinline
func burn60() time.Duration { return burn(60*time.Millisecond) + time.Duration(burnt.Add(1)&1) }

//go:noinline
func burn30() time.Duration { return burn(30*time.Millisecond) + time.Duration(burnt.Add(1)&1) }

//go:noinline
func burn10() time.Duration { return burn(10*time.Millisecond) + time.Duration(burnt.Add(1)&1) }

// share returns the weight of running samples whose stack has the function name, as a share of the weight of
// those that have the function of.
func share(samples []taken, name, of string) float64 {
	var part, all time.Duration
	for _, s := range samples {
		if s.status&(tachyon.OnCPU|tachyon.GILRequested) == 0 {
			continue
		}
		has := func(name string) bool {
			return slices.ContainsFunc(s.stack, func(f tachyon.Frame) bool { return strings.HasSuffix(f.Func, name) })
		}
		if has(of) {
			all += s.weight
			if has(name) {
				part += s.weight
			}
		}
	}
	return float64(part) / float64(all)
}

// allowed returns the largest error of a share: 2 points, and more if other programs have the cores when a
// tick is due.
func allowed(stats tachyon.Counts) float64 {
	return 0.02 + max(0, 1-float64(stats.TicksReached)/float64(stats.TicksAsked))
}

// TestKnownCPU samples functions that measure their own share of the time.
func TestKnownCPU(t *testing.T) {
	var mu sync.Mutex
	truth := map[string]time.Duration{}
	r, stats := session(t, source.Config{Budget: 1}, func() {
		var all sync.WaitGroup
		for range 2 {
			all.Add(1)
			go func() {
				defer all.Done()
				runtime.LockOSThread()
				for range 15 {
					for name, f := range map[string]func() time.Duration{"burn60": burn60, "burn30": burn30, "burn10": burn10} {
						took := f()
						mu.Lock()
						truth[name] += took
						mu.Unlock()
					}
				}
			}()
		}
		all.Wait()
	})
	t.Logf("%+v", stats)
	all := truth["burn60"] + truth["burn30"] + truth["burn10"]
	for name, took := range truth {
		got, want := share(r.samples, name, ".burn"), float64(took)/float64(all)
		t.Logf("%s: %.2f %% of the CPU time, want %.2f %%", name, 100*got, 100*want)
		if !near(got, want, allowed(stats)) {
			t.Errorf("%s: %.1f %% of the CPU time, want %.1f %%", name, 100*got, 100*want)
		}
	}
}

//go:noinline
func duty(d time.Duration) {
	n := 1
	for end := time.Now().Add(d); time.Now().Before(end); {
		for i := range 500 {
			n += i * n
		}
	}
	burnt.Store(int64(n))
}

// TestNoLockstep samples programs that work for a part of each period of a ticker. The sampling rates are
// multiples and fractions of the ticker's rate.
func TestNoLockstep(t *testing.T) {
	testenv.NotEmulated(t, "signals come late, at ends of translated blocks")
	rates := []int{1000, 100}
	if testing.Short() {
		rates = rates[:1] // the other rate takes 14 seconds
	}
	for _, rate := range rates {
		for _, every := range []time.Duration{time.Millisecond, 10 * time.Millisecond} {
			t.Run(fmt.Sprintf("%dHz/%v", rate, every), func(t *testing.T) { lockstep(t, rate, every) })
		}
	}
}

// lockstep has several goroutines that work at different points of the period. So the shares of a few thousand
// samples are as exact as those of many more.
func lockstep(t *testing.T, rate int, every time.Duration) {
	const goroutines = 5
	var worked, total atomic.Int64
	seconds := 4 * time.Second
	if rate == 100 {
		seconds = 7 * time.Second
	}
	r, stats := session(t, source.Config{Rate: rate, Budget: 1}, func() {
		var all sync.WaitGroup
		for i := range goroutines {
			all.Add(1)
			go func() {
				defer all.Done()
				time.Sleep(every * time.Duration(i) / goroutines)
				ticking(every, seconds, &worked, &total)
			}()
		}
		all.Wait()
	})
	in := func(s taken, name string) bool {
		return slices.ContainsFunc(s.stack, func(f tachyon.Frame) bool { return strings.HasSuffix(f.Func, name) })
	}
	var working, all time.Duration
	for _, s := range r.samples {
		if in(s, ".ticking") {
			all += s.weight
			if in(s, ".duty") {
				working += s.weight
			}
		}
	}
	got, want := float64(working)/float64(all), float64(worked.Load())/float64(total.Load())
	// A tick that waits for a core often gets one when a goroutine stops working, so its sample is biased.
	doubt := float64(r.late)/float64(every) + float64(stats.Dropped)/float64(goroutines*stats.TicksReached)
	t.Logf("%.2f %% of the time, want %.2f %%, %.2f in doubt; %+v", 100*got, 100*want, 100*doubt, stats)
	if !near(got, want, allowed(stats)+doubt) {
		t.Errorf("works %.1f %% of the time, sampled %.1f %%", 100*want, 100*got)
	}
}

//go:noinline
func ticking(every, d time.Duration, worked, total *atomic.Int64) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	start := time.Now()
	for time.Since(start) < d {
		<-tick.C
		before := time.Now()
		duty(every * 8 / 100)
		worked.Add(int64(time.Since(before)))
	}
	total.Add(int64(time.Since(start)))
}
