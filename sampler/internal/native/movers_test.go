//go:build linux && (amd64 || arm64)

package native

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/sampler/internal/source"
)

// mover waits for a short time, again and again.
//
//go:noinline
func mover(seed uint64, until time.Time) {
	random := rand.New(rand.NewPCG(seed, 3))
	for time.Now().Before(until) {
		time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
	}
}

// TestMovers checks that goroutines that move are sampled at nearly every tick, beside thousands that do
// not move. GOTACH_PARKED sets their number.
func TestMovers(t *testing.T) {
	parked := 3000
	if v := os.Getenv("GOTACH_PARKED"); v != "" {
		var err error
		if parked, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	defer park(parked)()
	const movers = 10
	// 1 % is too little for that on a busy machine.
	r, stats := session(t, source.Config{Budget: 10}, func() {
		until := time.Now().Add(3 * time.Second)
		var all sync.WaitGroup
		for i := range movers {
			all.Add(1)
			go func() { defer all.Done(); mover(uint64(i), until) }()
		}
		all.Wait()
	})
	var gaps, still []time.Duration
	for _, s := range r.samples {
		switch last := s.stack[len(s.stack)-1].Func; {
		case slices.ContainsFunc(names(s.stack), func(f string) bool { return strings.HasSuffix(f, ".mover") }):
			gaps = append(gaps, s.weight)
		case strings.Contains(last, ".park."):
			still = append(still, s.weight)
		}
	}
	slices.Sort(gaps)
	slices.Sort(still)
	if len(gaps) == 0 || len(still) == 0 {
		t.Fatalf("%d samples of goroutines that move, %d of others", len(gaps), len(still))
	}
	at := func(list []time.Duration, share float64) time.Duration { return list[int(share*float64(len(list)-1))] }
	t.Logf("between samples of goroutines that move beside %d: median %v, p99 %v; of the others: %v, %v; %+v",
		parked, at(gaps, 0.5), at(gaps, 0.99), at(still, 0.5), at(still, 0.99), stats)
	// Of all samples that could be, most must be there.
	if most := movers * int(stats.TicksReached); len(gaps) < most/2 {
		t.Errorf("%d samples of %d goroutines at %d ticks", len(gaps), movers, stats.TicksReached)
	}
}
