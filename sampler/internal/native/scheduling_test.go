// Not with -race: the race detector makes the scheduler's share small.

//go:build !race && linux && (amd64 || arm64)

package native

import (
	"bytes"
	"runtime"
	"runtime/pprof"
	"slices"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// TestScheduler has goroutines that make the scheduler work a lot. The scheduler
// must have about the CPU time that runtime/pprof finds in the same run.
func TestScheduler(t *testing.T) {
	testenv.NotEmulated(t, "the reference needs the CPU clock of the emulated program")
	var buf bytes.Buffer
	r, stats := session(t, source.Config{Budget: 50}, func() { // all ticks
		runtime.SetCPUProfileRate(500) // see TestAgreesWithPprof
		if err := pprof.StartCPUProfile(&buf); err != nil {
			t.Fatal(err)
		}
		until := cpuTime(t) + 4*time.Second
		yield := func() {
			for i := 0; i%100 != 0 || cpuTime(t) < until; i++ {
				for n := range 200 {
					burnt.Add(int64(n) & 1)
				}
				runtime.Gosched()
			}
		}
		together(yield, yield, yield, yield)
		pprof.StopCPUProfile()
	})
	all, parts, _ := cpuShares(r.samples)
	in := func(stack []string) bool {
		return slices.Contains(stack, "runtime.mcall") || slices.Contains(stack, "runtime.schedule")
	}
	// While a goroutine is on its way into the scheduler or out of it, its own samples have that.
	sum := parts["[scheduler]"]
	leaves := map[string]int{}
	for _, s := range r.samples {
		if stack := names(s.stack); s.status&tachyon.OnCPU != 0 && in(stack) {
			sum += s.weight
			leaves[stack[0]]++
		}
	}
	// There the scheduler reads the clock. The vDSO has no names, so that shows as the function with the
	// inlined call of nanotime1, as in runtime/pprof. In nanotime1 itself the thread is for a short time only.
	clock, inside := leaves["runtime.nanotime"], leaves["runtime.nanotime1"]
	t.Logf("%d samples in nanotime, %d in nanotime1", clock, inside)
	if ctxLR == 0 && clock+inside >= 12 && clock <= inside {
		t.Errorf("%d samples read the clock in nanotime, %d in nanotime1", clock, inside)
	}
	got := float64(sum) / float64(all)
	p, err := profile.ParseData(buf.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var there, samples float64
	for _, s := range p.Sample {
		samples += float64(s.Value[0])
		if in(pprofNames(s)) {
			there += float64(s.Value[0])
		}
	}
	want := there / samples
	t.Logf("the scheduler used %.2f %%, runtime/pprof says %.2f %% of %.0f samples; %v of %v; %+v", 100*got, 100*want, samples, parts, all, stats)
	if want < 0.05 || samples < 100 {
		t.Fatalf("runtime/pprof has %.2f %% of the scheduler in %.0f samples, so nothing is compared", 100*want, samples)
	}
	// Both have random errors, and not the same idea of where the scheduler begins.
	if got < want/3 || got > 2*want {
		t.Errorf("the scheduler used %.2f %% of the CPU time, runtime/pprof says %.2f %%", 100*got, 100*want)
	}
}
