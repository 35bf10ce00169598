// The race detector's own code is C without frame pointers: what runs there is
// dropped here and counted by the reference.

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

	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// TestAgreesWithPprof compares the shares of CPU time on real work with those
// of runtime/pprof of the same run.
//
// The reference counts CPU time, which stands still when a thread has to wait. On
// one P that is only when other programs have the core, whatever the work is at. On more,
// a goroutine that assists the collector waits for the others' threads to stop; the
// longer, the busier the machine.
func TestAgreesWithPprof(t *testing.T) {
	long := 30 * time.Second
	if testing.Short() {
		long = 10 * time.Second // and chance does more
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
		for until := cpuTime(t) + long; cpuTime(t) < until; {
			time.Sleep(100 * time.Millisecond)
		}
		pprof.StopCPUProfile()
		stop.Store(true)
		all.Wait()
	})
	got, want := newShares(".realWork"), pprofShares(t, buf.Bytes(), ".realWork")
	n, squares := 0, 0.0
	for _, s := range r.samples {
		if s.status&tachyon.OnCPU != 0 {
			before := got.all
			got.add(names(s.stack), float64(s.weight))
			squares += (got.all - before) * (got.all - before)
			n++
		}
	}
	// Chance does as much with so many samples of one weight.
	even := got.all * got.all / squares
	t.Logf("%d samples, as good as %.0f even ones, beside %.0f; %+v", n, even, want.all, stats)
	compare := func(kind string, gotOf, wantOf map[string]float64) {
		top := slices.SortedFunc(maps.Keys(wantOf), func(a, b string) int { return int(wantOf[b] - wantOf[a]) })
		for _, name := range top[:20] {
			g, w := gotOf[name]/got.all, wantOf[name]/want.all
			t.Logf("%s %6.2f %6.2f %s", kind, 100*g, 100*w, name)
			// Where one of the two has few samples, since the kernel's timer is slow or the
			// machine busy, chance does more than 2 points. One of 40 rows is further off than 4.5
			// standard deviations in less than one run of 3,000.
			if chance := 4.5 * math.Sqrt(w*(1-w)*(1/want.all+1/even)); !near(g, w, max(0.02, chance)) {
				t.Errorf("%s share of %s: %.2f %%, runtime/pprof says %.2f %%", kind, name, 100*g, 100*w)
			}
		}
	}
	compare("flat", got.flat, want.flat)
	compare("cum", got.cum, want.cum)
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
