//go:build unix

package auto

import (
	"os"
	"os/signal"
	"syscall"
)

// stopOnSignal ends the session at the first SIGINT or SIGTERM and then lets
// the signal do what it would have done without us. A signal that the program
// was told to ignore (nohup, a shell's background job) stays ignored.
func stopOnSignal() {
	var signals []os.Signal
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if !signal.Ignored(sig) {
			signals = append(signals, sig)
		}
	}
	if len(signals) == 0 {
		return // Notify without signals would mean all of them
	}
	got := make(chan os.Signal, 1)
	signal.Notify(got, signals...)
	go func() {
		sig := (<-got).(syscall.Signal)
		_ = session.Stop() // logged there
		signal.Stop(got)
		if handled, known := handledElsewhere(sig); known && handled {
			return // the program got it at the same moment as we did
		}
		_ = syscall.Kill(syscall.Getpid(), sig)
	}()
}
