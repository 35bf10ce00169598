//go:build unix

package auto

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/gotach/profiler/internal/own"
)

// stopOnSignal ends the session at the first SIGINT or SIGTERM and then lets
// the signal do what it would have done without us. A signal that the program
// was told to ignore (nohup, a shell's background job) stays ignored. The
// returned function ends the watch and waits until it has ended.
func stopOnSignal() (end func()) {
	var signals []os.Signal
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if !signal.Ignored(sig) {
			signals = append(signals, sig)
		}
	}
	if len(signals) == 0 {
		return func() {} // Notify without signals would mean all of them
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
			case sig = <-got: // it came before the watch was ended, and was kept from the program
			default:
				return
			}
		}
		signal.Stop(got)
		// Asked at once: a program may handle one signal and then stop listening.
		handled, known := handledElsewhere(sig.(syscall.Signal))
		_ = session.Stop() // logged there
		if known && handled {
			return // the program got it at the same moment as we did
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
