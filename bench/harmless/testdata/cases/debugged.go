package main

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// debugged calls hit until its standard input ends, and ends with code 7.
func debugged() {
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0) // any process may attach; without Yama all may
	stop := session()
	var ended atomic.Bool
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		ended.Store(true)
	}()
	fmt.Println("ready")
	for n := 0; !ended.Load(); time.Sleep(time.Millisecond) {
		n = hit(n)
	}
	stop()
	fmt.Println("done")
	os.Exit(7)
}

//go:noinline
func hit(n int) int { return n*31 + 1 }
