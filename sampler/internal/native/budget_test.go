//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"testing"
	"time"

	"github.com/gotach/profiler/sampler/internal/source"
)

// TestBudget simulates ticks and visits with given costs. It checks the final number of visits per tick
// and the share of the machine's CPU time that all of it takes.
func TestBudget(t *testing.T) {
	const cores, all = 2, 10_000
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	for _, c := range []struct {
		name              string
		percent           float64
		tick, visit       float64 // cost of a tick in the tick thread, of a visit in tick thread and drain, ns
		interrupts        float64 // signals per tick
		handler           float64
		visits, ofMachine float64
	}{
		{"within", 1, 5000, 100, 0, 0, 110, 0.8},
		{"with a load", 1, 5000, 100, 2, 1000, 50, 0.8},
		{"all", 100, 5000, 100, 2, 1000, all, 50.55},
		{"dear ticks", 1, 30_000, 100, 0, 0, fewVisits, 1.58},
		{"dear handler", 1, 5000, 100, 2, 20_000, fewVisits, 2.53},
	} {
		s := &shared{tornAfter: 40_000, still: circle{n: all}} // a cycle is a ns
		d := &drain{cfg: source.Config{Rate: 1000}}
		b := newBudget(c.percent)
		now := time.Unix(1, 0)
		b.at = now
		tick, half := 1.0, time.Duration(0)
		const rounds, ticks = 400, 20
		for i := range rounds {
			if i == rounds/2 {
				half = b.total
			}
			visits := min(float64(b.quota)/65536, all) * ticks
			now = now.Add(ticks * time.Millisecond)
			tick += c.tick*ticks + visits*c.visit/4
			s.ticks += ticks
			s.visiting += uint64(visits * c.visit / 4)
			s.answered += uint64(c.interrupts * ticks)
			s.handling += uint64(c.interrupts * ticks * c.handler)
			d.work += int64(visits + c.interrupts*ticks)
			b.spend(now, s, d, uint64(tick), uint64(visits*c.visit*3/4))
		}
		visits := float64(b.quota) / 65536
		share := 100 * float64(b.total-half) / float64(rounds/2*ticks*time.Millisecond) / cores
		if visits < c.visits*0.9 || visits > c.visits*1.1 || share < c.ofMachine*0.95 || share > c.ofMachine*1.05 {
			t.Errorf("%s: %.0f visits a tick, %.2f %% of the machine, want %.0f and %.2f", c.name, visits, share, c.visits, c.ofMachine)
		}
	}
}
