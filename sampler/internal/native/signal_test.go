//go:build linux && (amd64 || arm64)

package native

import (
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
)

// TestOldHandlerStays takes the signal and gives it back many times. There must always be a handler that gets
// the signals that are not ours: the kernel or other code may call our handler at any moment, also while a
// session begins or ends.
func TestOldHandlerStays(t *testing.T) {
	take := func() {
		old := testenv.Must(takeSignal(defaultSignal))
		releaseSignal(defaultSignal, old)
	}
	take()
	var stop atomic.Bool
	none := make(chan int)
	go func() {
		n := 0
		for !stop.Load() {
			if mem.LoadAcquire(uintptr(unsafe.Pointer(&oldHandler))) == 0 {
				n++
			}
		}
		none <- n
	}()
	for range 20_000 {
		take()
	}
	stop.Store(true)
	if n := <-none; n > 0 {
		t.Errorf("seen without a handler %d times", n)
	}
	if a, err := getAction(defaultSignal); err != nil || a.handler == handlerPC {
		t.Errorf("the action is %+v, %v", a, err)
	}
}
