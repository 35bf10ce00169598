// Not with -race: the race detector uses several times the memory.

//go:build measure && !race && linux && (amd64 || arm64)

package native

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
	"github.com/gotach/profiler/sampler/internal/source"
)

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
