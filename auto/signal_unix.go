//go:build unix

package auto

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/gotach/profiler/internal/hold"
	"github.com/gotach/profiler/internal/own"
)

// keepFor bounds the time for which a signal is kept from the program. Tests change both variables.
var (
	keepFor   = 200 * time.Millisecond
	keepFirst = hold.First
)

// stopOnSignal ends the session at the first SIGINT or SIGTERM. A signal that is ignored (nohup, a
// shell's background job) stays ignored. The returned function ends the watch for signals and
// returns when it has ended.
func stopOnSignal() (end func()) {
	// Stop logs its error.
	end, err := keepFirst(keepFor, func() { _ = session.Stop() }, syscall.SIGINT, syscall.SIGTERM)
	if err != nil {
		return stopBeside()
	}
	return end
}

// stopBeside does the same with package os/signal, where the signal cannot be kept. The program gets
// the signal at the same time. If it has no handler, stopBeside raises the signal again after the
// end of the session.
func stopBeside() (end func()) {
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
		// Check this at once: a program may handle one signal and then call signal.Stop. But it
		// takes some ms, and the program may be about to exit, so the session stops meanwhile.
		again := make(chan bool, 1)
		own.Go(func() {
			handled, known := handledElsewhere(sig.(syscall.Signal))
			again <- !known || !handled // if handled, os/signal has already delivered it
		})
		_ = session.Stop() // Stop logs its error
		if <-again {
			_ = syscall.Kill(syscall.Getpid(), sig.(syscall.Signal))
		}
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
