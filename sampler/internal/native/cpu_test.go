// Not with -race: most of the running code is then the race detector, C code without frame pointers.

//go:build !race && linux && (amd64 || arm64)

package native

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// The workers of TestCPU. Each kind has its own function, so that its CPU time can be found in samples,
// and measures its own CPU time.

//go:noinline
func workA(sum *atomic.Int64, f func()) { ownCPU(sum, f); burnt.Add(1) }

//go:noinline
func workB(sum *atomic.Int64, f func()) { ownCPU(sum, f); burnt.Add(1) }

//go:noinline
func workC(sum *atomic.Int64, f func()) { ownCPU(sum, f); burnt.Add(1) }

//go:noinline
func work(n int) {
	x := 1
	for i := range n * 1000 {
		x += i * x
	}
	burnt.Add(int64(x & 1))
}

// knownCPU has the CPU time of each kind of worker, as the workers measured it.
type knownCPU struct{ a, b, c atomic.Int64 }

// ownCPU calls f on a thread of its own and adds the CPU time of that thread to sum.
func ownCPU(sum *atomic.Int64, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadCPU(unix.Gettid())
	f()
	sum.Add(int64(threadCPU(unix.Gettid()) - before))
}

// cpuLoads are programs that use the CPU for some time. Each worker adds its own CPU time to k, or leaves
// it out of k if other goroutines use its thread too.
var cpuLoads = map[string]func(k *knownCPU, until time.Time){
	"three that never wait": func(k *knownCPU, until time.Time) {
		spin := func(f func(*atomic.Int64, func()), sum *atomic.Int64) func() {
			return func() {
				f(sum, func() {
					for time.Now().Before(until) {
						work(100)
					}
				})
			}
		}
		together(spin(workA, &k.a), spin(workB, &k.b), spin(workC, &k.c))
	},
	"10 that wait often":     many(10, 2*time.Millisecond),
	"1000 that wait":         many(1000, 300*time.Millisecond),
	"10 that use few cycles": many(10, 20*time.Millisecond),
	"system calls": func(k *knownCPU, until time.Time) {
		zero, err := os.Open("/dev/zero")
		if err != nil {
			panic(err)
		}
		defer zero.Close()
		b := make([]byte, 100_000)
		together(func() {
			workA(&k.a, func() {
				for time.Now().Before(until) {
					zero.Read(b)
				}
			})
		}, func() {
			workB(&k.b, func() {
				for time.Now().Before(until) {
					work(100)
				}
			})
		})
	},
	"collections": func(k *knownCPU, until time.Time) {
		defer debug.SetGCPercent(debug.SetGCPercent(20))
		allocate := func() {
			var keep [1000][]byte
			for i := 0; time.Now().Before(until); i++ {
				keep[i%1000] = make([]byte, 1000+i%5000)
				work(1)
			}
		}
		together(allocate, allocate, allocate)
	},
}

// many starts n goroutines of three kinds that work and sleep in turns.
func many(n int, pause time.Duration) func(k *knownCPU, until time.Time) {
	return func(k *knownCPU, until time.Time) {
		var fs []func()
		for i := range n {
			kind := []struct {
				f   func(*atomic.Int64, func())
				sum *atomic.Int64
			}{{workA, &k.a}, {workB, &k.b}, {workC, &k.c}}[i%3]
			fs = append(fs, func() {
				for time.Now().Before(until) {
					kind.f(kind.sum, func() { work(100 * (1 + i%3)) })
					time.Sleep(pause)
				}
			})
		}
		together(fs...)
	}
}

func together(fs ...func()) {
	var all sync.WaitGroup
	for _, f := range fs {
		all.Add(1)
		go func() { defer all.Done(); f() }()
	}
	all.Wait()
}

// TestCPU checks that the samples on the CPU add up to the CPU time of the process, and those of each
// function to its own.
func TestCPU(t *testing.T) {
	testenv.NotEmulated(t, "the CPU time of the emulator counts too, and signals come late")
	long := 4 * time.Second
	if testing.Short() {
		long = 2 * time.Second
	}
	// The errors of functions are random: they shrink with the window's length. GOTACH_CPU_SECONDS shows whether
	// nothing but chance is behind them.
	if v := os.Getenv("GOTACH_CPU_SECONDS"); v != "" {
		seconds, err := strconv.Atoi(v)
		if err != nil {
			t.Fatalf("GOTACH_CPU_SECONDS: %v", err)
		}
		long = time.Duration(seconds) * time.Second
	}
	for name, load := range cpuLoads {
		t.Run(name, func(t *testing.T) {
			var k knownCPU
			began := time.Now()
			// The session begins some time after the call of Start, and ends before Stop returns.
			most, least := cpuTime(t), time.Duration(0)
			r, stats := session(t, source.Config{Budget: 1}, func() {
				least = cpuTime(t)
				load(&k, time.Now().Add(long))
				least = cpuTime(t) - least
			})
			most = cpuTime(t) - most
			wall := time.Since(began)
			all, parts, even := cpuShares(r.samples)
			t.Logf("%v, of the process %v to %v; %v; %+v", all, least, most, parts, stats)
			// CPU time is paid in whole samples: each thread can be up to half of a sample ahead or behind. On
			// a busy machine samples are few and heavy.
			heaviest := time.Duration(0)
			for _, s := range r.samples {
				if s.status&tachyon.OnCPU != 0 {
					heaviest = max(heaviest, s.weight)
				}
			}
			if all < least-max(least/50, heaviest) || all > most+max(most/50, heaviest) {
				t.Errorf("the samples on the CPU add up to %v, the process used %v to %v", all, least, most)
			}
			if name == "three that never wait" {
				// All Ps run goroutines all the time, with a core or without. When ticks are late, some of
				// that time counts as that of goroutines that wait for a P.
				var held time.Duration
				for _, s := range r.samples {
					if s.status&tachyon.HasGIL != 0 {
						held += s.weight
					}
				}
				want := time.Duration(runtime.GOMAXPROCS(0)) * long
				t.Logf("Ps were held for %v, want %v", held, want)
				// Of ticks that are missed nothing is known.
				reached := float64(stats.TicksReached) / float64(stats.TicksAsked)
				if float64(held) < 0.7*reached*float64(want) || held > want*11/10+time.Duration(runtime.GOMAXPROCS(0))*(wall-long) {
					t.Errorf("Ps were held for %v, want %v", held, want)
				}
			}
			if name == "collections" && runtime.GOMAXPROCS(0) > 1 && parts["runtime"] < all/50 {
				t.Errorf("%v of the collector", parts["runtime"])
			}
			if name == "system calls" && stats.Torn > stats.TicksReached/8 {
				t.Errorf("%d visits to a goroutine in short system calls were torn, in %d ticks", stats.Torn, stats.TicksReached)
			}
			for f, sum := range map[string]*atomic.Int64{"workA": &k.a, "workB": &k.b, "workC": &k.c} {
				got, want := float64(parts[f])/float64(all), float64(sum.Load())/float64(all)
				// Samples come at random times. In fewer than one of 10,000 comparisons the error is larger.
				chance := 4 * math.Sqrt(want*(1-want)/even)
				t.Logf("%s %.2f %%, want %.2f %%", f, 100*got, 100*want)
				if sum.Load() > 0 && !near(got, want, max(0.03, chance)) {
					t.Errorf("%s used the CPU for %v, its samples say %v", f, time.Duration(sum.Load()), parts[f])
				}
			}
		})
	}
}

// TestCPUInC does the same in a program with C code that spins, on goroutines and on a thread of its own.
func TestCPUInC(t *testing.T) { run(t, build(t, "cgoprog"), "cpu") }

// TestCPUWithout runs TestCPU in processes to which the kernel gives less CPU time than they want.
func TestCPUWithout(t *testing.T) {
	testenv.NotEmulated(t, "the test starts itself again")
	loads := "^TestCPU$/^(three_that_never_wait|10_that_wait_often|collections)$"
	again := func() *exec.Cmd { return exec.Command(os.Args[0], "-test.short", "-test.v", "-test.run="+loads) }
	check := func(t *testing.T, out []byte, err error) {
		t.Logf("%s", out)
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestCPU/collections")) {
			t.Error(err)
		}
	}
	for _, cores := range []float64{0.3, 1.5} {
		t.Run(fmt.Sprint(cores, " cores"), func(t *testing.T) {
			out, err := testenv.RunLimited(t, cores, again())
			check(t, out, err)
		})
	}
	t.Run("beside another", func(t *testing.T) {
		// A process begins on the cores of the thread that starts it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var all, one unix.CPUSet
		if err := unix.SchedGetaffinity(0, &all); err != nil {
			t.Fatal(err)
		}
		for core := 0; one.Count() == 0; core++ {
			if all.IsSet(core) {
				one.Set(core)
			}
		}
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Fatal(err)
		}
		defer unix.SchedSetaffinity(0, &all)
		other := exec.Command("sh", "-c", "while :; do :; done")
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			other.Process.Kill()
			other.Wait()
		}()
		out, err := again().CombinedOutput()
		check(t, out, err)
	})
}

// cpuShares adds up the samples on the CPU: all, and by worker or pseudo thread. even is the number of samples
// of goroutines with equal weights that would have the same random error.
func cpuShares(list []taken) (all time.Duration, parts map[string]time.Duration, even float64) {
	parts = map[string]time.Duration{}
	sum, squares := 0.0, 0.0
	for _, s := range list {
		if s.status&tachyon.OnCPU == 0 {
			continue
		}
		all += s.weight
		switch {
		case s.goroutine >= tachyon.FirstPseudo:
			parts[s.stack[0].Func] += s.weight
			continue
		case s.system:
			parts["runtime"] += s.weight
		}
		sum, squares = sum+float64(s.weight), squares+float64(s.weight)*float64(s.weight)
		for _, f := range s.stack {
			if _, kind, _ := strings.Cut(f.Func, "native.work"); len(kind) == 1 {
				parts["work"+kind] += s.weight
			}
		}
	}
	return all, parts, sum * sum / max(1, squares)
}
