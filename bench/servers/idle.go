package main

import (
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gotach/profiler"
)

// idles are servers that nobody asks for anything.
var idles = map[string]func(folder string) error{}

// idle prints what a session costs in a server that is idle, in percent of a core: the CPU time of
// the process with it less that of the same time without.
func idle(start func(folder string) error, length time.Duration, folder string) error {
	if err := start(folder); err != nil {
		return err
	}
	time.Sleep(3 * time.Second)
	without := used(length)
	session := profiler.Start(profiler.Output(filepath.Join(folder, "gotach.tach")))
	time.Sleep(3 * time.Second)
	with := used(length)
	fmt.Printf("%.3f\n", 100*(with-without).Seconds()/length.Seconds())
	return session.Stop()
}

// used returns the CPU time of the process in some time.
func used(length time.Duration) time.Duration {
	var before, after syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	time.Sleep(length)
	syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	return time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
}
