// Not with -race: the race detector is C code without frame pointers. The native source drops samples
// in it, and the reference counts them.

//go:build !race && linux && (amd64 || arm64)

package native

import (
	"bytes"
	"compress/flate"
	"encoding/json"
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

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// TestAgreesWithPprof compares shares of CPU time in real work with those of runtime/pprof in the same
// run.
//
// The reference counts CPU time, which does not include the time in which a thread waits for a core.
// With one P such waits come from other programs and are independent of the work. With several Ps, a
// goroutine that assists the collector waits for other threads to stop, and longer on a busy machine.
// So the test uses one P.
func TestAgreesWithPprof(t *testing.T) {
	testenv.NotEmulated(t, "the reference needs the CPU clock of the emulated program")
	long := 30 * time.Second
	if testing.Short() {
		long = 10 * time.Second // with a larger random error
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	files := sourceFiles(t)
	var buf bytes.Buffer
	r, stats := session(t, source.Config{Budget: 50}, func() { // all ticks: few would have large random errors
		var stop atomic.Bool
		var all sync.WaitGroup
		for range 2 {
			all.Add(1)
			go func() { defer all.Done(); realWork(files, &stop) }()
		}
		// At its default of 100 Hz the reference itself would have an error of 2 points. Then
		// StartCPUProfile prints an error message on stderr, but works.
		runtime.SetCPUProfileRate(500)
		if err := pprof.StartCPUProfile(&buf); err != nil {
			t.Fatal(err)
		}
		for until := cpuTime(t) + long; cpuTime(t) < until; {
			time.Sleep(100 * time.Millisecond)
		}
		pprof.StopCPUProfile()
		stop.Store(true)
		all.Wait()
	})
	// All samples, so the collector's and the scheduler's too. The profiler's threads block SIGPROF.
	got, want := newShares(""), pprofShares(t, buf.Bytes(), "")
	n, squares := 0, 0.0
	for _, s := range r.samples {
		if s.status&tachyon.OnCPU != 0 && s.stack[0].Func != "[profiler]" {
			before := got.all
			got.add(names(s.stack), float64(s.weight))
			squares += (got.all - before) * (got.all - before)
			n++
		}
	}
	// The number of samples with equal weights that would have the same random error.
	even := got.all * got.all / squares
	t.Logf("%d samples, as good as %.0f even ones, beside %.0f; %+v", n, even, want.all, stats)
	compare := func(kind string, gotOf, wantOf map[string]float64) {
		top := slices.SortedFunc(maps.Keys(wantOf), func(a, b string) int { return int(wantOf[b] - wantOf[a]) })
		for _, name := range top[:20] {
			g, w := gotOf[name]/got.all, wantOf[name]/want.all
			t.Logf("%s %6.2f %6.2f %s", kind, 100*g, 100*w, name)
			if name == "[scheduler]" {
				continue // see TestScheduler
			}
			// If one of the two has few samples, because the kernel's timer is slow or the machine
			// busy, the random error is larger than 2 points. In fewer than one of 3,000 runs, one of
			// 40 rows has an error of more than 4.5 standard deviations.
			if chance := 4.5 * math.Sqrt(w*(1-w)*(1/want.all+1/even)); !near(g, w, max(0.02, chance)) {
				t.Errorf("%s share of %s: %.2f %%, runtime/pprof says %.2f %%", kind, name, 100*g, 100*w)
			}
		}
	}
	compare("flat", got.flat, want.flat)
	compare("cum", got.cum, want.cum)
	name := "runtime.gcBgMarkWorker"
	g, w := got.cum[name]/got.all, want.cum[name]/want.all
	t.Logf("cum %6.2f %6.2f %s", 100*g, 100*w, name)
	if w < 0.01 {
		t.Errorf("runtime/pprof has %.2f %% of %s, so nothing is compared", 100*w, name)
	}
	if chance := 4.5 * math.Sqrt(w*(1-w)*(1/want.all+1/even)); !near(g, w, max(0.02, chance)) {
		t.Errorf("%s: %.2f %%, runtime/pprof says %.2f %%", name, 100*g, 100*w)
	}
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

// cpuTime returns the CPU time that the process has used.
func cpuTime(t *testing.T) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
