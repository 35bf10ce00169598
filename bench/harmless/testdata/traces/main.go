// Command traces prints the actions of all signals before, during and after a session, and how many threads
// the program has without and with the session. "traces start FILE" calls Start. "traces auto" has a session of
// package auto if PROFILE_OUT is set, and none otherwise.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	profiler "github.com/gotach/profiler"
	"github.com/gotach/profiler/auto"
)

// An action is the kernel's struct sigaction.
type action [4]uint64

// actions returns the actions of signals 1 to 64.
func actions() (all [64]action) {
	for i := range all {
		_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(i+1), 0, uintptr(unsafe.Pointer(&all[i])), 8, 0, 0)
		if e != 0 {
			fail(e)
		}
	}
	return all
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// threads returns the largest number of threads that the program has during the next time d.
func threads(d time.Duration) (most int) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		list, err := os.ReadDir("/proc/self/task")
		if err != nil {
			fail(err)
		}
		most = max(most, len(list))
	}
	return most
}

// work has goroutines that run, wait for one another, and make system calls.
func work() (stop func()) {
	var done atomic.Bool
	for range 4 {
		ping, pong := make(chan int), make(chan int)
		go func() {
			for n := range ping {
				pong <- n
			}
		}()
		go func() {
			for n := 0; !done.Load(); n++ {
				ping <- n
				<-pong
				if n%500 == 0 {
					_, _ = os.Stat("/proc/self")
					time.Sleep(time.Millisecond)
				}
			}
			close(ping)
		}()
	}
	return func() { done.Store(true) }
}

func main() {
	const long = 300 * time.Millisecond
	var out struct {
		Before, During, After [64]action
		Without, With         int // threads; Without only of "start"
	}
	out.Before = actions()
	stop := work()
	end := auto.Stop
	if os.Args[1] == "start" {
		out.Without = threads(long)
		s, err := profiler.Open(profiler.Output(os.Args[2]))
		if err != nil {
			fail(err)
		}
		end = s.Stop
	}
	out.With = threads(long)
	out.During = actions()
	if err := end(); err != nil {
		fail(err)
	}
	out.After = actions()
	stop()
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		fail(err)
	}
}
