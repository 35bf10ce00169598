//go:build linux && (amd64 || arm64)

package native

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/cost"
)

// TestCyclesPerSecond checks the measurement on a thread that loses its core at random moments, also
// between the readings of clock and counter.
func TestCyclesPerSecond(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		now := 1e9 // ns
		look := func(perNs float64) uint64 {
			v := now * perNs
			if now += 30; random.IntN(20) == 0 {
				now += random.Float64() * 40e6
			}
			return uint64(v)
		}
		clock := func() uint64 { return look(1) }
		counter := func() uint64 { return look(2.5) }
		if got := cyclesPerSecond(clock, counter); got < 2.475e9 || got > 2.525e9 {
			t.Fatalf("%.3f GHz, want 2.5", float64(got)/1e9)
		}
	}
	cyclesPerSecond(func() uint64 { return 5 }, mem.Cycles) // must return although the clock stands still
}

// TestReleaseEarly releases a source whose preparation failed at its beginning.
func TestReleaseEarly(t *testing.T) {
	l := testenv.Must(goruntime.LayoutOf(runtime.Version()))
	n := New()
	n.patience = cost.NewPatience(cost.CpuOfThread(), true)
	testenv.OK(t, n.share(l))
	if !n.release() || n.memory != nil {
		t.Error("the source still has memory")
	}
}
