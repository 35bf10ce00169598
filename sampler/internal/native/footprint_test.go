// Not with -race: the race detector uses several times the memory.

//go:build !race && linux && (amd64 || arm64)

package native

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/sampler/internal/source"
)

// TestMemory bounds the memory that a session adds to the process: 32 MB with 1,000 goroutines, and 1 KB
// for each further one.
func TestMemory(t *testing.T) {
	rss := func() (kb int) {
		debug.FreeOSMemory()
		b, _ := os.ReadFile("/proc/self/status")
		_, rest, _ := strings.Cut(string(b), "VmRSS:")
		fmt.Sscan(rest, &kb)
		return kb
	}
	for _, n := range []int{1000, 50000} {
		unpark := park(n)
		before := rss()
		s := New()
		if err := s.Start(source.Config{Rate: 1000, Budget: 20, WaitFrames: true, Start: time.Now()}, discard{newRecorder()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		added := rss() - before
		s.Stop()
		unpark()
		t.Logf("%d goroutines: %d KB", n, added)
		if limit := 32<<10 + n - 1000; added > limit {
			t.Errorf("a session with %d goroutines takes %d KB, more than %d", n, added, limit)
		}
	}
}
