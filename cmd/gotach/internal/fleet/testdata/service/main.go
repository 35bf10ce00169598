// Command service is the profiled program of TestPeerSystemd. It serves nothing, but works a little all the time, until it gets
// SIGTERM.
package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gotach/profiler/auto"
)

func main() {
	defer auto.Stop()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	for {
		select {
		case <-end:
			return
		case <-time.After(10 * time.Millisecond):
		}
		for before := time.Now(); time.Since(before) < time.Millisecond; {
		}
	}
}
