// Not with -race: the race detector is C code without frame pointers. The native source drops samples
// in it, and the reference counts them.

//go:build measure && !race && linux && (amd64 || arm64)

package native

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

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
		if share := want.cum["runtime.gcBgMarkWorker"] / want.all; share < 0.01 {
			t.Errorf("runtime/pprof has %.2f %% of the collector, so it is not compared", 100*share)
		}
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
