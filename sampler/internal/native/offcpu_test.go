//go:build measure && !race && linux && (amd64 || arm64)

package native

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/felixge/fgprof"
	"github.com/google/pprof/profile"
	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

//go:noinline
func napping(d time.Duration) { time.Sleep(d) }

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

// waiter waits in several ways, in some of them more often, at most for the duration most each time.
//
//go:noinline
func waiter(seed uint64, most time.Duration, stop *atomic.Bool) {
	random := rand.New(rand.NewPCG(seed, 1))
	for !stop.Load() {
		d := time.Duration(random.Int64N(int64(most)))
		switch n := random.IntN(100); {
		case n < 50:
			napping(d)
		case n < 80:
			selecting(d)
		default:
			locking(d)
		}
	}
}

// TestMeasureFgprof compares the shares of waiting time with those of fgprof in the same run, at the rate that fgprof
// recommends. So many goroutines are visited in turns, and the runtime has even more gs of ended ones.
func TestMeasureFgprof(t *testing.T) {
	park(30_000)()
	defer park(3000)()
	measure.AtMost(t, "shares of waiting beside fgprof's", "points", 1.5, func() float64 {
		var buf bytes.Buffer
		r, _ := session(t, source.Config{Budget: 10, WaitFrames: true}, func() {
			end := fgprof.Start(&buf, fgprof.FormatPprof)
			var stop atomic.Bool
			var all sync.WaitGroup
			for i := range 400 {
				all.Go(func() { waiter(uint64(i), 100*time.Millisecond, &stop) })
			}
			time.Sleep(3 * time.Second)
			stop.Store(true)
			all.Wait()
			testenv.OK(t, end())
		})
		got, want := newShares(".waiter"), pprofShares(t, buf.Bytes(), ".waiter")
		for _, s := range r.samples {
			got.add(names(s.stack), float64(s.weight))
		}
		for _, way := range []string{"napping", "selecting", "locking"} {
			testenv.FailIf(t, got.cum[here+way] == 0 || want.cum[here+way] == 0, "no samples of %s", way)
		}
		// Samples do not have the runtime's innermost functions.
		got.flat, want.flat = nil, nil
		return got.apart(want, 0.005)
	})
}

// TestMeasurePprof compares shares of CPU time in real work, and of the collector in it, with those of runtime/pprof in
// the same run.
//
// The reference counts CPU time, which does not include the time in which a thread waits for a core.
// With one P such waits come from other programs and are independent of the work. With several Ps, a
// goroutine that assists the collector waits for other threads to stop, and longer on a busy machine.
// So the test uses one P.
func TestMeasurePprof(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var files [][]byte
	list, _ := filepath.Glob("*.go")
	for _, name := range list {
		b := testenv.Must(os.ReadFile(name))
		files = append(files, b)
	}
	measure.AtMost(t, "shares of CPU time beside runtime/pprof's", "points", 5, func() float64 {
		var buf bytes.Buffer
		r, _ := session(t, source.Config{Budget: 50}, func() { // all ticks: few would have large random errors
			var stop atomic.Bool
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() { realWork(files, &stop) })
			}
			// At its default of 100 Hz the reference itself would have an error of 4 points. Then
			// StartCPUProfile prints an error message on stderr, but works.
			runtime.SetCPUProfileRate(500)
			testenv.OK(t, pprof.StartCPUProfile(&buf))
			time.Sleep(3 * time.Second)
			pprof.StopCPUProfile()
			stop.Store(true)
			all.Wait()
		})
		got, want := newShares(""), pprofShares(t, buf.Bytes(), "")
		for _, s := range r.samples {
			if s.status&tachyon.OnCPU != 0 && s.stack[0].Func != "[profiler]" {
				got.add(names(s.stack), float64(s.weight))
			}
		}
		share := want.cum["runtime.gcBgMarkWorker"] / want.all
		testenv.FailIf(t, share < 0.01, "runtime/pprof has %.2f %% of the collector, so it is not compared", 100*share)
		return got.apart(want, 0.02)
	})
}

// realWork compresses, encodes and decodes this package's source.
func realWork(files [][]byte, stop *atomic.Bool) {
	for !stop.Load() {
		for _, src := range files {
			workFlate(src)
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
func workJSON(src []byte) {
	lines := strings.Split(string(src), "\n")
	b, _ := json.Marshal(map[string]any{"lines": lines})
	var v any
	json.Unmarshal(b, &v)
}

// shares sums up weights by function, flat and cumulative, of the stacks that have the function named of.
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
		// If a thread gets a core and has both the runtime's signal and the profiler's pending,
		// this function is on the stack, but has not begun.
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

// apart returns by how many points the shares of functions in s and other differ at most, among those that have at
// least a share of least in one of them.
func (s *shares) apart(other *shares, least float64) (points float64) {
	compare := func(a, b map[string]float64) {
		for name := range b {
			if g, w := a[name]/s.all, b[name]/other.all; max(g, w) >= least && !goruntime.Hidden(name) && name != "[scheduler]" {
				points = max(points, 100*math.Abs(g-w))
			}
		}
	}
	compare(s.flat, other.flat)
	compare(s.cum, other.cum)
	return points
}

// pprofShares counts the first values of a profile in pprof's format, without the drain's.
func pprofShares(t *testing.T, file []byte, of string) *shares {
	t.Helper()
	p := testenv.Must(profile.ParseData(file))
	s := newShares(of)
	for _, sample := range p.Sample {
		var stack []string // innermost first
		for _, l := range sample.Location {
			for _, line := range l.Line {
				stack = append(stack, line.Function.Name)
			}
		}
		if slices.Contains(stack, "runtime.schedule") {
			stack = []string{"[scheduler]"} // the native source does not show its functions
		}
		if !slices.Contains(stack, "github.com/gotach/profiler/sampler/internal/native.(*Source).loop") {
			s.add(stack, float64(sample.Value[0]))
		}
	}
	return s
}
