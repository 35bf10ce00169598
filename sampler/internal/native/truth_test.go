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
	"github.com/gotach/profiler/internal/tachyon"
	"github.com/gotach/profiler/sampler/internal/source"
)

//go:noinline
func burn(d time.Duration) {
	n := 1
	for end := time.Now().Add(d); time.Now().Before(end); {
		for i := range 2000 {
			n += i * n
		}
	}
	burnt.Store(int64(n))
}

var burnt atomic.Int64 // keeps the work from being optimised away, and calls from being tail calls

//go:noinline
func burn60() { burn(60 * time.Millisecond); burnt.Add(1) }

//go:noinline
func burn30() { burn(30 * time.Millisecond); burnt.Add(1) }

//go:noinline
func burn10() { burn(10 * time.Millisecond); burnt.Add(1) }

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

// TestKnownCPU samples functions whose shares of the time are known. They go by
// the clock, so that the shares are true on a machine that is busy too.
func TestKnownCPU(t *testing.T) { onQuietMachine(t, func() []string { return knownCPU(t) }) }

func knownCPU(t *testing.T) (wrong []string) {
	r, stats := session(t, source.Config{Budget: 1}, func() {
		var all sync.WaitGroup
		for range 2 {
			all.Add(1)
			go func() {
				defer all.Done()
				runtime.LockOSThread()
				for range 15 {
					burn60()
					burn30()
					burn10()
				}
			}()
		}
		all.Wait()
	})
	t.Logf("%+v", stats)
	for name, want := range map[string]float64{"burn60": 0.6, "burn30": 0.3, "burn10": 0.1} {
		if got := share(r.samples, name, ".burn"); math.Abs(got-want) > 0.02 {
			wrong = append(wrong, fmt.Sprintf("%s: %.1f %% of the CPU time, should be %.0f %%", name, 100*got, 100*want))
		}
	}
	return wrong
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
	for _, rate := range []int{100, 1000} {
		for _, every := range []time.Duration{time.Millisecond, 10 * time.Millisecond} {
			t.Run(fmt.Sprintf("%dHz/%v", rate, every), func(t *testing.T) {
				onQuietMachine(t, func() []string { return lockstep(t, rate, every) })
			})
		}
	}
}

func lockstep(t *testing.T, rate int, every time.Duration) []string {
	var worked, total time.Duration
	var id uint64
	seconds := 4 * time.Second
	if rate == 100 {
		seconds = 20 * time.Second
	}
	r, stats := session(t, source.Config{Rate: rate, Budget: 1}, func() {
		done := make(chan bool)
		go func() {
			defer close(done)
			id = currentGoid()
			tick := time.NewTicker(every)
			defer tick.Stop()
			start := time.Now()
			for time.Since(start) < seconds {
				<-tick.C
				before := time.Now()
				duty(every * 3 / 10)
				worked += time.Since(before)
			}
			total = time.Since(start)
		}()
		<-done
	})
	var running, all time.Duration
	for _, s := range r.samples {
		if s.goroutine == id {
			all += s.weight
			if s.status&(tachyon.OnCPU|tachyon.GILRequested) != 0 {
				running += s.weight
			}
		}
	}
	got, want := float64(running)/float64(all), float64(worked)/float64(total)
	t.Logf("%.2f %% of the time, is %.2f %%; %+v", 100*got, 100*want, stats)
	if math.Abs(got-want) > 0.02 {
		return []string{fmt.Sprintf("works %.1f %% of the time, sampled %.1f %%", 100*want, 100*got)}
	}
	return nil
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

// shares counts weights of functions, flat and cumulative, in stacks that have of.
type shares struct {
	flat, cum map[string]float64
	all       float64
}

func (s *shares) add(stack []string, weight float64) {
	if !slices.ContainsFunc(stack, func(n string) bool { return strings.HasSuffix(n, ".realWork") }) {
		return
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
func TestAgreesWithPprof(t *testing.T) {
	onQuietMachine(t, func() []string { return agreeWithPprof(t) })
}

func agreeWithPprof(t *testing.T) (wrong []string) {
	files := sourceFiles(t)
	var buf bytes.Buffer
	r, stats := session(t, source.Config{Budget: 1}, func() {
		var stop atomic.Bool
		var all sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			all.Add(1)
			go func() { defer all.Done(); realWork(files, &stop) }()
		}
		// At its default of 100 Hz the reference's own error is 2 points in ten
		// seconds. StartCPUProfile complains of this on stderr and goes on.
		runtime.SetCPUProfileRate(500)
		if err := pprof.StartCPUProfile(&buf); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		pprof.StopCPUProfile()
		stop.Store(true)
		all.Wait()
	})
	p, err := profile.ParseData(buf.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	want := shares{map[string]float64{}, map[string]float64{}, 0}
	for _, s := range p.Sample {
		var stack []string
		for _, l := range s.Location {
			for _, line := range l.Line {
				stack = append(stack, line.Function.Name)
			}
		}
		want.add(stack, float64(s.Value[0]))
	}
	got := shares{map[string]float64{}, map[string]float64{}, 0}
	n := 0
	for _, s := range r.samples {
		if s.status&tachyon.OnCPU != 0 {
			got.add(names(s.stack), float64(s.weight))
			n++
		}
	}
	t.Logf("%d samples beside %.0f; %+v", n, want.all, stats)
	compare := func(kind string, got, want map[string]float64, allGot, allWant float64) {
		top := make([]string, 0, len(want))
		for name := range want {
			top = append(top, name)
		}
		slices.SortFunc(top, func(a, b string) int { return int(want[b] - want[a]) })
		for _, name := range top[:20] {
			g, w := 100*got[name]/allGot, 100*want[name]/allWant
			note := ""
			if math.Abs(g-w) > 2 {
				note = "  <<<"
				wrong = append(wrong, fmt.Sprintf("%s share of %s: %.2f %%, runtime/pprof says %.2f %%", kind, name, g, w))
			}
			t.Logf("%s %6.2f %6.2f %s%s", kind, g, w, name, note)
		}
	}
	compare("flat", got.flat, want.flat, got.all, want.all)
	compare("cum", got.cum, want.cum, got.all, want.all)
	return wrong
}
