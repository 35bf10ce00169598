//go:build linux && (amd64 || arm64)

package native

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/tachyon"
	"github.com/gotach/profiler/sampler/internal/source"
)

// burn works for some time and returns how long it was: on a busy machine a
// thread may have to wait for a core just before the end.
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

// share returns the weight of running samples whose stack has name, of the
// weight of those that have of.
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

// allowed is by how much a share of the time may be off: by 2 points, and by what the
// machine leaves in doubt where other programs have the cores when a tick is due.
func allowed(stats source.Stats) float64 {
	return 0.02 + max(0, 1-float64(stats.TicksReached)/float64(stats.TicksAsked))
}

// TestKnownCPU samples functions of which each knows how much of the time it took.
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
		t.Logf("%s: %.2f %% of the CPU time, is %.2f %%", name, 100*got, 100*want)
		if math.Abs(got-want) > allowed(stats) {
			t.Errorf("%s: %.1f %% of the CPU time, should be %.1f %%", name, 100*got, 100*want)
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

// TestNoLockstep samples programs that work for a part of each tick of their own
// ticker, at rates that are multiples and fractions of it.
func TestNoLockstep(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	for _, rate := range []int{100, 1000} {
		for _, every := range []time.Duration{time.Millisecond, 10 * time.Millisecond} {
			t.Run(fmt.Sprintf("%dHz/%v", rate, every), func(t *testing.T) { lockstep(t, rate, every) })
		}
	}
}

// lockstep has more than one goroutine, each at its own point of the tick: so the
// shares of a few thousand looks are as sure as those of many more.
func lockstep(t *testing.T, rate int, every time.Duration) {
	const goroutines = 5
	var worked, total atomic.Int64
	seconds := 4 * time.Second
	if rate == 100 {
		seconds = 10 * time.Second
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
	t.Logf("%.2f %% of the time, is %.2f %%; %+v", 100*got, 100*want, stats)
	if math.Abs(got-want) > allowed(stats) {
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

// realWork compresses, encodes and parses the standard library's own source.
func realWork(files [][]byte, stop *atomic.Bool) {
	for !stop.Load() {
		for _, src := range files {
			workFlate(src)
			workParser(src)
			workJSON(src)
			if stop.Load() {
				return
			}
		}
	}
}

//go:noinline
func workFlate(src []byte) {
	w, _ := flate.NewWriter(io.Discard, 6)
	w.Write(src)
	w.Close()
}

//go:noinline
func workParser(src []byte) { parser.ParseFile(token.NewFileSet(), "x.go", src, 0) }

//go:noinline
func workJSON(src []byte) {
	lines := strings.Split(string(src), "\n")
	b, _ := json.Marshal(map[string]any{"lines": lines})
	var v any
	json.Unmarshal(b, &v)
}

func sourceFiles(t testing.TB) (files [][]byte) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(strings.TrimSpace(string(root)), "src/go/types")
	names, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil {
			files = append(files, b)
		}
	}
	if len(files) < 20 {
		t.Fatalf("%d source files in %s", len(files), dir)
	}
	return files
}

// shares counts weights of functions, flat and cumulative, in stacks that have the function of.
type shares struct {
	of        string
	flat, cum map[string]float64
	all       float64
}

func newShares(of string) *shares { return &shares{of, map[string]float64{}, map[string]float64{}, 0} }

func (s *shares) add(stack []string, weight float64) {
	if !slices.ContainsFunc(stack, func(n string) bool { return strings.HasSuffix(n, s.of) }) {
		return
	}
	if stack[0] == "runtime.asyncPreempt" {
		// Where a thread comes back to a core and finds the runtime's signal and the
		// profiler's, it seems to be called, but has not begun.
		stack = stack[1:]
	}
	seen := map[string]bool{}
	for i, name := range stack {
		if at := strings.IndexByte(name, '['); at >= 0 {
			name = name[:at] + "[...]" + name[strings.LastIndexByte(name, ']')+1:]
		}
		if i == 0 {
			s.flat[name] += weight
		}
		if !seen[name] {
			s.cum[name] += weight
		}
		seen[name] = true
	}
	s.all += weight
}

// TestAgreesWithPprof compares the shares of CPU time on real work with those
// of runtime/pprof of the same run.
//
// The reference counts CPU time, which stands still when a thread has to wait. On
// one P that is only when other programs have the core, whatever the work is at. On more,
// a goroutine that assists the collector waits for the others' threads to stop; the
// longer, the busier the machine.
func TestAgreesWithPprof(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	if raceEnabled {
		t.Skip("the race detector's own code is C without frame pointers: what runs there is dropped here and counted by the reference")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	files := sourceFiles(t)
	var buf bytes.Buffer
	r, stats := session(t, source.Config{Budget: 1}, func() {
		var stop atomic.Bool
		var all sync.WaitGroup
		for range 2 {
			all.Add(1)
			go func() { defer all.Done(); realWork(files, &stop) }()
		}
		// At its default of 100 Hz the reference's own error would be 2 points.
		// StartCPUProfile complains of this on stderr and goes on.
		runtime.SetCPUProfileRate(500)
		if err := pprof.StartCPUProfile(&buf); err != nil {
			t.Fatal(err)
		}
		for until := cpuTime(t) + 30*time.Second; cpuTime(t) < until; {
			time.Sleep(100 * time.Millisecond)
		}
		pprof.StopCPUProfile()
		stop.Store(true)
		all.Wait()
	})
	p, err := profile.ParseData(buf.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	got, want := newShares(".realWork"), newShares(".realWork")
	for _, s := range p.Sample {
		want.add(pprofNames(s), float64(s.Value[0]))
	}
	n := 0
	for _, s := range r.samples {
		if s.status&tachyon.OnCPU != 0 {
			got.add(names(s.stack), float64(s.weight))
			n++
		}
	}
	t.Logf("%d samples beside %.0f; %+v", n, want.all, stats)
	compare := func(kind string, gotOf, wantOf map[string]float64) {
		top := slices.SortedFunc(maps.Keys(wantOf), func(a, b string) int { return int(wantOf[b] - wantOf[a]) })
		for _, name := range top[:20] {
			g, w := gotOf[name]/got.all, wantOf[name]/want.all
			t.Logf("%s %6.2f %6.2f %s", kind, 100*g, 100*w, name)
			// Where the kernel's timer is so slow that the reference has few samples, chance
			// does more than 2 points.
			if chance := 3.5 * math.Sqrt(w*(1-w)/want.all); math.Abs(g-w) > max(0.02, chance) {
				t.Errorf("%s share of %s: %.2f %%, runtime/pprof says %.2f %%", kind, name, 100*g, 100*w)
			}
		}
	}
	compare("flat", got.flat, want.flat)
	compare("cum", got.cum, want.cum)
}

// cpuTime returns the CPU time that the process has used.
func cpuTime(t *testing.T) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pprofNames returns the functions of a sample's stack, innermost first.
func pprofNames(s *profile.Sample) (stack []string) {
	for _, l := range s.Location {
		for _, line := range l.Line {
			stack = append(stack, line.Function.Name)
		}
	}
	return stack
}
