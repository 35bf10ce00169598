//go:build linux && (amd64 || arm64)

package native

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/felixge/fgprof"

	"github.com/gotach/profiler/sampler/internal/source"
)

//go:noinline
func napping(d time.Duration) { time.Sleep(d) }

//go:noinline
func receiving(d time.Duration) { <-time.After(d) }

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

//go:noinline
func reading(d time.Duration) {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	defer r.Close()
	defer w.Close()
	r.SetReadDeadline(time.Now().Add(d))
	r.Read(make([]byte, 1))
}

// waiter waits in one way and another, in some more than in others, for at most
// so long each time.
//
//go:noinline
func waiter(seed uint64, most time.Duration, until time.Time) {
	random := rand.New(rand.NewPCG(seed, 1))
	for time.Now().Before(until) {
		d := time.Duration(random.Int64N(int64(most)))
		switch n := random.IntN(100); {
		case n < 40:
			napping(d)
		case n < 65:
			receiving(d)
		case n < 80:
			selecting(d)
		case n < 92:
			locking(d)
		default:
			reading(d)
		}
	}
}

// TestAgreesWithFgprof compares where time goes that is spent waiting with what
// fgprof says of the same run, at the rate that it recommends.
func TestAgreesWithFgprof(t *testing.T) {
	t.Run("few", func(t *testing.T) { agreesWithFgprof(t, 40, 20*time.Millisecond) })
	// Many more take turns, and the runtime keeps even more that have ended.
	t.Run("crowd", func(t *testing.T) {
		park(30_000)()
		defer park(3000)()
		agreesWithFgprof(t, 400, 100*time.Millisecond)
	})
}

func agreesWithFgprof(t *testing.T, waiters int, most time.Duration) {
	var buf bytes.Buffer
	r, stats := session(t, source.Config{Budget: 1, WaitFrames: true}, func() {
		stop := fgprof.Start(&buf, fgprof.FormatPprof)
		until := time.Now().Add(10 * time.Second)
		var all sync.WaitGroup
		for i := range waiters {
			all.Add(1)
			go func() { defer all.Done(); waiter(uint64(i), most, until) }()
		}
		all.Wait()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
	got, want := newShares(".waiter"), pprofShares(t, buf.Bytes(), ".waiter")
	for _, s := range r.samples {
		got.add(names(s.stack), float64(s.weight))
	}
	t.Logf("%d samples beside %.0f; %+v", len(r.samples), want.all, stats)
	if want.all < float64(waiters)*200 {
		t.Errorf("fgprof has only %.0f samples", want.all)
	}
	compared := 0
	for _, name := range slices.Sorted(maps.Keys(want.cum)) {
		g, w := got.cum[name]/got.all, want.cum[name]/want.all
		if hidden(name) || w < 0.005 && g < 0.005 {
			continue // the runtime's own are not shown above what waits
		}
		t.Logf("%6.2f %6.2f %s", 100*g, 100*w, name)
		if !near(g, w, 0.02) {
			t.Errorf("share of %s: %.2f %%, fgprof says %.2f %%", name, 100*g, 100*w)
		}
		if strings.HasSuffix(name, "ing") {
			compared++
		}
	}
	if compared != 5 {
		t.Errorf("%d of 5 ways to wait were compared", compared)
	}
}

// worker takes a long rest, works, and takes a short one. It adds up its rests.
//
//go:noinline
func worker(long, short *atomic.Int64, until time.Time) {
	for now := time.Now(); now.Before(until); now = time.Now() {
		napping(40 * time.Millisecond)
		long.Add(int64(time.Since(now)))
		duty(1500 * time.Microsecond)
		now = time.Now()
		shortly(2 * time.Millisecond)
		short.Add(int64(time.Since(now)))
	}
}

//go:noinline
func shortly(d time.Duration) { time.Sleep(d) }

// TestShortWaits has goroutines whose turn seldom comes, and which are seen to work each
// time that they do: the short rest that always follows must not stand for the
// long one.
func TestShortWaits(t *testing.T) {
	defer park(3000)()
	var long, short atomic.Int64
	r, stats := session(t, source.Config{Budget: 1}, func() {
		until := time.Now().Add(6 * time.Second)
		var all sync.WaitGroup
		for range 10 {
			all.Add(1)
			go func() { defer all.Done(); worker(&long, &short, until) }()
		}
		all.Wait()
	})
	got := newShares(".worker")
	for _, s := range r.samples {
		if s.time > time.Second { // until then not all had a turn
			got.add(names(s.stack), float64(s.weight))
		}
	}
	name := func(f string) float64 { return got.cum["github.com/gotach/profiler/sampler/internal/native."+f] }
	g := name("shortly") / (name("shortly") + name("napping"))
	w := float64(short.Load()) / float64(short.Load()+long.Load())
	t.Logf("%.1f %% of the rest is short, is %.1f %%; %+v", 100*g, 100*w, stats)
	if !near(g, w, 0.05) {
		t.Errorf("%.1f %% of the rest is said to be short, is %.1f %%", 100*g, 100*w)
	}
}
