//go:build linux && (amd64 || arm64)

package native

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/felixge/fgprof"

	"github.com/gotach/profiler/internal/testenv"
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

// waiter waits in several ways, in some of them more often, at most for the duration most each time.
//
//go:noinline
func waiter(seed uint64, most time.Duration, stop *atomic.Bool) {
	random := rand.New(rand.NewPCG(seed, 1))
	for !stop.Load() {
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

// TestAgreesWithFgprof compares the shares of waiting time with those of fgprof in the same run, at the
// rate that fgprof recommends.
func TestAgreesWithFgprof(t *testing.T) {
	t.Run("few", func(t *testing.T) { agreesWithFgprof(t, 40, 20*time.Millisecond) })
	// So many goroutines are visited in turns, and the runtime has even more gs of ended ones.
	t.Run("crowd", func(t *testing.T) {
		testenv.NotEmulated(t, "fgprof does not keep its rate")
		park(30_000)()
		defer park(3000)()
		agreesWithFgprof(t, 400, 100*time.Millisecond)
	})
}

func agreesWithFgprof(t *testing.T, waiters int, most time.Duration) {
	var buf bytes.Buffer
	r, stats := session(t, source.Config{Budget: 10, WaitFrames: true}, func() {
		end := fgprof.Start(&buf, fgprof.FormatPprof)
		var stop atomic.Bool
		var all sync.WaitGroup
		for i := range waiters {
			all.Add(1)
			go func() { defer all.Done(); waiter(uint64(i), most, &stop) }()
		}
		// In 6 s fgprof would take 590 ticks, but on a busy machine it is slower, because it stops
		// the world twice a tick. Nothing else in this test stops the world.
		enough := testenv.Pauses() + 2*250
		begin := time.Now()
		time.Sleep(6 * time.Second)
		for testenv.Pauses() < enough && time.Since(begin) < 5*time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		stop.Store(true)
		all.Wait()
		if err := end(); err != nil {
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
			continue // samples do not have the runtime's innermost functions
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
		t.Errorf("compared %d ways to wait, want 5", compared)
	}
}

// worker sleeps long, works, and sleeps shortly, again and again. It adds up both kinds of sleep.
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

// TestShortWaits has goroutines that are rarely visited in turn, but are sampled whenever they run. The
// short sleep right after running must not get the weight of the long sleep.
func TestShortWaits(t *testing.T) {
	defer park(3000)()
	var long, short atomic.Int64
	r, stats := session(t, source.Config{Budget: budgetHere()}, func() {
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
		got.add(names(s.stack), float64(s.weight))
	}
	name := func(f string) float64 { return got.cum["github.com/gotach/profiler/sampler/internal/native."+f] }
	g := name("shortly") / (name("shortly") + name("napping"))
	w := float64(short.Load()) / float64(short.Load()+long.Load())
	t.Logf("share of short sleeps: %.1f %%, want %.1f %%; %+v", 100*g, 100*w, stats)
	if !near(g, w, 0.05) {
		t.Errorf("share of short sleeps: %.1f %%, want %.1f %%", 100*g, 100*w)
	}
}

//go:noinline
func lives5ms() { time.Sleep(5 * time.Millisecond) }

//go:noinline
func lives50ms() { time.Sleep(50 * time.Millisecond) }

//go:noinline
func lives200ms() { time.Sleep(200 * time.Millisecond) }

// TestShortLives has short-lived goroutines among thousands of others that are visited twice a second, in
// a program that once had even more. The samples of the short-lived ones must have their full time.
func TestShortLives(t *testing.T) {
	for _, rate := range []int{1000, 100} {
		t.Run(strconv.Itoa(rate), func(t *testing.T) { shortLives(t, rate) })
	}
}

func shortLives(t *testing.T, rate int) {
	free := park(20_000)
	defer park(3000)()
	free()
	lives := []struct {
		name  string
		wait  func()
		count int          // goroutines that begin at the same time
		lived atomic.Int64 // sum of their lifetimes, ns, by their own clock
	}{{name: "lives5ms", wait: lives5ms, count: 5}, {name: "lives50ms", wait: lives50ms, count: 1}, {name: "lives200ms", wait: lives200ms, count: 1}}
	begin, stalled := time.Now(), time.Duration(0)
	r, stats := session(t, source.Config{Budget: budgetHere(), Rate: rate}, func() {
		var all sync.WaitGroup
		last := time.Now()
		for until := last.Add(5 * time.Second); time.Now().Before(until); time.Sleep(3 * time.Millisecond) {
			stalled += max(0, time.Since(last)-20*time.Millisecond)
			last = time.Now()
			for i := range lives {
				l := &lives[i]
				for range l.count {
					all.Add(1)
					go func() {
						defer all.Done()
						begin := time.Now()
						l.wait()
						l.lived.Add(int64(time.Since(begin)))
					}()
				}
			}
		}
		all.Wait()
	})
	got := newShares("")
	for _, s := range r.samples {
		got.add(names(s.stack), float64(s.weight))
	}
	// If the machine stalls, goroutines can have ended before the next tick.
	doubt := float64(stalled) / float64(time.Since(begin))
	if testenv.Emulated() {
		doubt += 0.15 // a tick takes a millisecond, so ticks are rarer than the shortest lives
	}
	t.Logf("%d samples, stalled for %v; %+v", len(r.samples), stalled, stats)
	for i := range lives {
		l := &lives[i]
		g, w := got.cum["github.com/gotach/profiler/sampler/internal/native."+l.name], float64(l.lived.Load())
		t.Logf("%s: sampled for %.2f s of %.2f s", l.name, g/1e9, w/1e9)
		if !near(g/w, 1, 0.15+doubt) {
			t.Errorf("goroutines that waited in %s for %.2f s were sampled for %.2f s", l.name, w/1e9, g/1e9)
		}
	}
}

// TestWholeSession runs a session that is too short for a visit of every goroutine in turn. The samples of
// each goroutine must cover the time from Start to Stop.
func TestWholeSession(t *testing.T) {
	const crowd = 5000
	free := park(30_000)
	defer park(crowd)()
	free()
	var begin, end time.Time
	r, stats := session(t, source.Config{Budget: 0.01}, func() {
		begin = time.Now()
		time.Sleep(200 * time.Millisecond)
		end = time.Now()
	})
	all := newShares(".park.func1")
	last := time.Duration(0)
	for _, s := range r.samples {
		all.add(names(s.stack), float64(s.weight))
		last = max(last, s.time)
	}
	least, most := end.Sub(begin)*9/10, last // goroutines count from some moment in Start
	t.Logf("%d samples; %+v", len(r.samples), stats)
	if got := time.Duration(all.all / crowd); got < least || got > most {
		t.Errorf("each of %d goroutines was sampled for %v on average, want %v to %v", crowd, got, least, most)
	}
}
