//go:build unix

package auto

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/gotach/profiler/internal/own"
)

// stopOnSignal ends the session at the first SIGINT or SIGTERM. Then it raises the
// signal again, so that the signal has its usual effect, unless the program handles
// it too. A signal that is ignored (nohup, a shell's background job) stays ignored.
// The returned function ends the watch for signals and returns when it has ended.
func stopOnSignal() (end func()) {
	var signals []os.Signal
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if !signal.Ignored(sig) {
			signals = append(signals, sig)
		}
	}
	if len(signals) == 0 {
		return func() {} // Notify without signals would ask for all signals
	}
	got := make(chan os.Signal, 1)
	signal.Notify(got, signals...)
	quit, ended := make(chan struct{}), make(chan struct{})
	own.Go(func() {
		defer close(ended)
		var sig os.Signal
		select {
		case sig = <-got:
		case <-quit:
			select {
			case sig = <-got: // it came before the watch ended, so the program has not seen it
			default:
				return
			}
		}
		signal.Stop(got)
		// Check this before the session stops: a program may handle one signal and then call
		// signal.Stop.
		handled, known := handledElsewhere(sig.(syscall.Signal))
		_ = session.Stop() // Stop logs its error
		if known && handled {
			return // os/signal has already delivered it to the program
		}
		_ = syscall.Kill(syscall.Getpid(), sig.(syscall.Signal))
	})
	var once sync.Once
	return func() {
		once.Do(func() {
			signal.Stop(got)
			close(quit)
		})
		<-ended
	}
}
