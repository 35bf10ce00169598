package main

import (
	"crypto/sha256"
	"time"
)

// The loads here come in pairs: a program before a change and after it. TestMeasureChanges of
// package bench compares them.
func init() {
	loads["jobs"] = func(stop <-chan struct{}, _ string) error { return jobs(stop, false) }
	loads["jobs-checked"] = func(stop <-chan struct{}, _ string) error { return jobs(stop, true) }
	loads["leak"] = func(stop <-chan struct{}, _ string) error { return leak(stop, 100*time.Millisecond) }
	loads["leak-faster"] = func(stop <-chan struct{}, _ string) error { return leak(stop, 30*time.Millisecond) }
}

// jobs has workers that do jobs and rest. After the change each job checks its result too, which
// takes 4 % of the CPU time. All of it is spent in one function, so only the callers tell what is
// new.
func jobs(stop <-chan struct{}, checked bool) error {
	for range 6 {
		go until(stop, func() {
			parse()
			render()
			store()
			if checked {
				check()
			}
			time.Sleep(20 * time.Millisecond)
		})
	}
	return nil
}

//go:noinline
func parse() { digest(120) }

//go:noinline
func render() { digest(72) }

//go:noinline
func store() { digest(48) }

//go:noinline
func check() { digest(10) }

//go:noinline
func digest(units int) {
	var b [1024]byte
	for range units * 10 {
		s := sha256.Sum256(b[:])
		copy(b[:], s[:])
	}
}

// leak has requests of which each leaves a goroutine behind. After the change they come more often.
func leak(stop <-chan struct{}, pause time.Duration) error {
	go jobs(stop, false)
	go until(stop, func() {
		go forgotten(make(chan int))
		time.Sleep(pause)
	})
	return nil
}

func forgotten(reply chan int) { <-reply }
