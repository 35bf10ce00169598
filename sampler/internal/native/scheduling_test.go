//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// TestScheduler has goroutines that make the scheduler work a lot. It must have CPU time, and not theirs.
func TestScheduler(t *testing.T) {
	var stop atomic.Bool
	defer stop.Store(true)
	var working, scheduling atomic.Int64
	r := newRecorder()
	r.keep = func(s *taken) bool {
		switch {
		case s.status&tachyon.OnCPU == 0 || s.weight <= 0:
		case s.goroutine < tachyon.FirstPseudo && !s.system:
			working.Add(1)
		case s.goroutine >= tachyon.FirstPseudo && s.stack[len(s.stack)-1].Func == tachyon.FuncScheduler:
			scheduling.Add(1)
		}
		return false
	}
	sessionWith(t, source.Config{}, r, func() {
		for range 4 {
			go func() {
				for !stop.Load() {
					runtime.Gosched()
				}
			}()
		}
		testenv.Await(func() bool { return scheduling.Load() >= 10 && working.Load() >= 10 })
	})
	if scheduling.Load() < 10 || working.Load() < 10 {
		t.Errorf("%d samples of the scheduler, %d of goroutines", scheduling.Load(), working.Load())
	}
}
