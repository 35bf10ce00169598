// Not with -race: most of the running code is then the race detector, C code without frame pointers.

//go:build measure && !race && linux && (amd64 || arm64)

package native

import (
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

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
	"golang.org/x/sys/unix"
)

var burnt atomic.Int64 // keeps work from being optimised away, and calls from being tail calls

// The workers of TestMeasureCPU. Each kind has its own function, so that its CPU time can be found in samples,
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

var works = []func(*atomic.Int64, func()){workA, workB, workC}

// knownCPU has the CPU time of each kind of worker, as the workers measured it.
type knownCPU [3]atomic.Int64

// ownCPU calls f on a thread of its own and adds the CPU time of that thread to sum.
func ownCPU(sum *atomic.Int64, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := cost.ThreadCPU(unix.Gettid())
	f()
	sum.Add(int64(cost.ThreadCPU(unix.Gettid()) - before))
}

// cpuLoads are programs that use the CPU for some time. Each worker adds its own CPU time to k, or leaves
// it out of k if other goroutines use its thread too.
var cpuLoads = map[string]func(k *knownCPU, until time.Time){
	"three that never wait": func(k *knownCPU, until time.Time) {
		spin := func() { work(100) }
		k.together(until, spin, spin, spin)
	},
	"10 that wait often": func(k *knownCPU, until time.Time) {
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				for time.Now().Before(until) {
					works[i%3](&k[i%3], func() { work(100 * (1 + i%3)) })
					time.Sleep(2 * time.Millisecond)
				}
			})
		}
		all.Wait()
	},
	"system calls": func(k *knownCPU, until time.Time) {
		zero := testenv.Must(os.Open("/dev/zero"))
		defer zero.Close()
		b := make([]byte, 100_000)
		k.together(until, func() { zero.Read(b) }, func() { work(100) })
	},
}

// together has a worker of each kind, which does one thing again and again.
func (k *knownCPU) together(until time.Time, do ...func()) {
	var all sync.WaitGroup
	for kind, f := range do {
		all.Go(func() {
			works[kind](&k[kind], func() {
				for time.Now().Before(until) {
					f()
				}
			})
		})
	}
	all.Wait()
}

func init() { children["cpu"] = measureCPU }

// measureCPU samples a load. It prints by how many percent the samples on the CPU and the process's CPU time differ, by
// how many points of it a kind of worker differs from its own clock, and how many visits of 100 ticks were torn.
func measureCPU() {
	// At night a session at the default budget. It has few ticks, so its errors are larger, but the window is long.
	cfg := source.Config{Rate: 1000, Budget: float64(testenv.Times(50, 1)), Start: time.Now()}
	long := testenv.Must(time.ParseDuration(os.Getenv("GOTACH_CPU_WINDOW")))
	var k knownCPU
	// The session begins some time after the call of Start, and ends before Stop returns.
	most := cost.ProcessCPU()
	r, n := newRecorder(), New()
	if err := n.Start(cfg, r); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	least := cost.ProcessCPU()
	cpuLoads[os.Getenv("GOTACH_CPU_LOAD")](&k, time.Now().Add(long))
	least = cost.ProcessCPU() - least
	n.Stop()
	most = cost.ProcessCPU() - most
	var all time.Duration
	parts := map[string]time.Duration{}
	for _, s := range r.samples {
		if s.status&tachyon.OnCPU == 0 {
			continue
		}
		all += s.weight
		for _, f := range s.stack {
			if name, ok := strings.CutPrefix(f.Func, here+"work"); ok {
				parts[name] += s.weight
			}
		}
	}
	apart := 0.0
	for i, name := range []string{"A", "B", "C"} {
		if own := k[i].Load(); own > 0 {
			apart = max(apart, 100*math.Abs(float64(parts[name])-float64(own))/float64(all))
		}
	}
	stats := n.Progress()
	fmt.Println(100*float64(max(time.Duration(least)-all, all-time.Duration(most), 0))/float64(most), apart, 100*float64(stats.Torn)/float64(stats.TicksReached))
}

// TestMeasureCPU compares the samples on the CPU with the kernel's clocks: all of them with that of the process, those of
// each kind of worker with those of its threads. Some processes have less CPU time than they want.
func TestMeasureCPU(t *testing.T) {
	self := os.Args[:1]
	for _, c := range []struct {
		load, among string
		cores       float64
		args        []string // of the command
	}{
		{"three that never wait", "", 0, self},
		{"10 that wait often", "", 0, self},
		{"system calls", "", 0, self},
		{"10 that wait often", ", 0.3 cores", 0.3, self},
		{"three that never wait", ", one core beside a program that spins", 0,
			[]string{"taskset", "-c", "0", "sh", "-c", `while :; do :; done & "$0"; kill $!`, os.Args[0]}},
	} {
		t.Run(c.load+c.among, func(t *testing.T) {
			start := (*exec.Cmd).CombinedOutput
			if c.cores > 0 {
				start = func(cmd *exec.Cmd) (out []byte, err error) {
					t.Run("", func(t *testing.T) { out, err = testenv.RunLimited(t, c.cores, cmd) }) // a cgroup is removed with its test
					if cmd.Process == nil {
						testenv.Skip(t, "no cgroup")
					}
					return out, err
				}
			}
			compare(t, c.load+c.among, func() figures {
				cmd := exec.Command(c.args[0], c.args[1:]...)
				// Visits come by CPU time, some 250 a second of it. Where there are fewer than 400, a share is off by 5 points by chance.
				long := testenv.Times(time.Second, 40*time.Second)
				if c.load == "10 that wait often" {
					long = max(long, 4*time.Second)
				}
				if c.cores > 0 {
					long = 10 * time.Second
				}
				cmd.Env = append(os.Environ(), "GOTACH_NATIVE_CHILD=cpu", "GOTACH_CPU_LOAD="+c.load, "GOTACH_CPU_WINDOW="+long.String())
				return figuresOf(t, cmd, start)
			})
		})
	}
}

// TestMeasureCPUInC does the same in a program with C code that spins, on goroutines and on a thread of its own.
func TestMeasureCPUInC(t *testing.T) {
	testenv.Command(t, "cc", "apt-get install gcc")
	bin := build(t, "cgoprog")
	compare(t, "C", func() figures { return figuresOf(t, exec.Command(bin, "cpu"), (*exec.Cmd).CombinedOutput) })
}

type figures struct{ process, worker, torn float64 }

// figuresOf returns the figures that a command prints.
func figuresOf(t *testing.T, cmd *exec.Cmd, start func(*exec.Cmd) ([]byte, error)) (f figures) {
	t.Helper()
	out, err := start(cmd)
	_, e := fmt.Sscan(string(out), &f.process, &f.worker, &f.torn)
	testenv.StopIf(t, err != nil || e != nil, "%v %v\n%s", err, e, out)
	return f
}

// compare judges the figures of runs of once. Each run gives all of them.
func compare(t *testing.T, what string, once func() figures) {
	var list []figures
	figure := func(name, unit string, bound float64, get func(figures) float64) {
		n := 0
		measure.AtMost(t, what+": "+name, unit, bound, func() float64 {
			if n++; n > len(list) {
				list = append(list, once())
			}
			return get(list[n-1])
		})
	}
	figure("the process's CPU time", "%", 2, func(f figures) float64 { return f.process })
	figure("the share of a kind of worker", "points", 5, func(f figures) float64 { return f.worker })
	figure("torn visits, of the ticks", "%", 12, func(f figures) float64 { return f.torn })
}

// TestMeasureBusyStart starts a session beside goroutines that never wait. Where Open gives up its P at the wrong place, it
// waits until all others have had their turn: 0.4 s on a quiet machine. The median is below a second.
func TestMeasureBusyStart(t *testing.T) {
	bin := stripped(t)
	for _, procs := range []string{"1", "2", "8", "0"} {
		measure.AtMost(t, "Open beside 40 goroutines that never wait, GOMAXPROCS "+procs, "s", 4, func() float64 {
			text, ok := output(t, nil, bin, "busy", "40", procs, t.TempDir())
			var open, stop float64
			var source string
			n, err := fmt.Sscan(text, &open, &stop, &source)
			testenv.FailIf(t, !ok || n < 3 || source != "native", "%v: %s", err, text)
			t.Logf("GOMAXPROCS %s: Open %.2fs, Stop %.2fs", procs, open, stop)
			return open
		})
	}
}

// TestMeasureManyVariables starts a session in a program with so many variables that the search for the runtime's takes
// long.
func TestMeasureManyVariables(t *testing.T) {
	bin := build(t, "globals")
	measure.AtMost(t, "Start in a program with two million slices", "s", 3, func() float64 {
		out, err := exec.Command(bin).Output()
		seconds, e := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		testenv.StopIf(t, err != nil || e != nil, "%v %v: %s", err, e, out)
		return seconds
	})
}

// TestMeasureMemory measures the memory that a session adds to the process: 32 MB with 1,000 goroutines, and 1 KB
// for each further one.
func TestMeasureMemory(t *testing.T) {
	rss := func() (kb float64) {
		debug.FreeOSMemory()
		b, _ := os.ReadFile("/proc/self/status")
		_, rest, _ := strings.Cut(string(b), "VmRSS:")
		fmt.Sscan(rest, &kb)
		return kb
	}
	for _, n := range []int{1000, 50_000} {
		func() {
			defer park(n)()
			measure.SizeAtMost(t, fmt.Sprintf("memory of a session with %d goroutines", n), "KB", float64(32<<10+n-1000), func() float64 {
				before := rss()
				s := New()
				testenv.OK(t, s.Start(source.Config{Rate: 1000, Budget: 20, WaitFrames: true, Start: time.Now()}, discard{newRecorder()}))
				defer s.Stop()
				time.Sleep(time.Second)
				return rss() - before
			})
		}()
	}
}
