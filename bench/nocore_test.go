//go:build measure && linux

package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	judge "github.com/gotach/profiler/internal/testenv/measure" // measure is a function of this package
	"github.com/gotach/profiler/tachyon"
	"golang.org/x/sys/unix"
)

// TestMeasureNoCore has a goroutine for each core, which compute beside other programs that do. The time in which these had no core,
// or waited for the Go scheduler because others had none, is how long their threads waited for one by the kernel's own count
// (schedstat).
func TestMeasureNoCore(t *testing.T) {
	for range runtime.NumCPU() + 1 {
		spin := exec.Command("sh", "-c", "while :; do :; done")
		testenv.OK(t, spin.Start())
		defer func() { spin.Process.Kill(); spin.Wait() }()
	}
	judge.AtMost(t, "time without a core, off the kernel's count", "%", 20, func() float64 {
		path := filepath.Join(t.TempDir(), "x.tach")
		session := profiler.Start(profiler.Output(path))
		waited := make(chan time.Duration)
		for range runtime.NumCPU() {
			go func() {
				runtime.LockOSThread()
				before := waitedForCore()
				for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
					for range 100_000 {
					}
				}
				waited <- waitedForCore() - before
			}()
		}
		want := time.Duration(0)
		for range runtime.NumCPU() {
			want += <-waited
		}
		testenv.OK(t, session.Stop())
		got := withoutCore(t, path)
		return 100 * math.Abs(float64(got)/float64(want)-1)
	})
}

// waitedForCore returns how long the thread has waited for a core.
func waitedForCore() time.Duration {
	var ran, waited time.Duration
	testenv.Must(fmt.Sscan(string(testenv.Must(os.ReadFile(fmt.Sprintf("/proc/self/task/%d/schedstat", unix.Gettid())))), &ran, &waited))
	return waited
}

// withoutCore returns the time of a file in which goroutines could run and had no core.
func withoutCore(t *testing.T, path string) (all time.Duration) {
	src := sourceOf(t, path, stream.Options{})
	for x := range testenv.All(t, src.Samples()) {
		if x.Status&(tachyon.HasGIL|tachyon.GILRequested) != 0 && x.Status&tachyon.OnCPU == 0 {
			all += x.Wall
		}
	}
	return all
}
