// Command service is the profiled program of TestSystemd. It serves nothing, but works a little all the time, until it gets
// SIGTERM. For each life it appends two lines to the file lives: its pid and the time at which it began or ended. The second
// one has also for how long the machine kept it from running.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/gotach/profiler/auto"
)

func main() {
	write(0)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	const step = 10 * time.Millisecond
	var late time.Duration
	for {
		before := time.Now()
		select {
		case <-end:
			write(late)
			return
		case <-time.After(step):
		}
		for time.Since(before) < step+time.Millisecond {
		}
		if d := time.Since(before); d > 3*step {
			late += d
		}
	}
}

func write(late time.Duration) {
	f, err := os.OpenFile("/var/lib/shop/profiles/lives", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid(), time.Now().UnixNano(), int64(late))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
