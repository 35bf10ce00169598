package main

import (
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The ways to end.
var _ = add(map[string]func(){
	"returns":                func() { fmt.Println("done") },
	"exits 0":                func() { os.Exit(0) },
	"exits 3":                func() { os.Exit(3) },
	"exits from a goroutine": func() { go os.Exit(3); select {} },
	"exits while Start runs": func() { time.Sleep(time.Millisecond); os.Exit(3) },
	"panics":                 func() { panic("as intended") },
	"panics in a goroutine":  func() { go panic("as intended"); select {} },
	"recovers":               func() { defer func() { fmt.Println("recovered", recover()) }(); panic("as intended") },
	"log.Fatal":              func() { log.Fatal("as intended") },
	"nil":                    func() { fmt.Println(*pointer) },
	"nil recovered": func() {
		n := 0
		for range 10_000 {
			func() {
				defer func() {
					if recover() != nil {
						n++
					}
				}()
				*pointer++
			}()
		}
		fmt.Println(n, "recovered")
	},
	"stack overflow": func() { debug.SetMaxStack(1 << 20); fmt.Println(forever(1)) },
	"concurrent map writes": func() {
		runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))) // the runtime does not preempt its map code, so one P sees no such writes
		m := map[int]int{}
		for range 4 {
			go func() {
				for i := 0; ; i++ {
					m[i%100] = i
				}
			}()
		}
		select {}
	},
	"unlock of unlocked mutex": func() { new(sync.Mutex).Unlock() },
	"out of memory": func() {
		limit := unix.Rlimit{Cur: 4 << 30, Max: 4 << 30}
		check(unix.Setrlimit(unix.RLIMIT_AS, &limit))
		var all [][]byte
		for {
			all = append(all, make([]byte, 64<<20))
		}
	},
	"memory limit": func() {
		debug.SetMemoryLimit(32 << 20)
		var keep [16][]byte
		for i := range 20_000 {
			keep[i%len(keep)] = make([]byte, 64<<10)
		}
		fmt.Println("done")
	},
	"SIGTERM": func() { signalSelf(syscall.SIGTERM) },
	"SIGINT":  func() { signalSelf(syscall.SIGINT) },
	"SIGHUP":  func() { signalSelf(syscall.SIGHUP) },
	"SIGQUIT": func() { signalSelf(syscall.SIGQUIT) },
	"SIGKILL": func() { signalSelf(syscall.SIGKILL) },
	"SIGABRT": func() { signalSelf(syscall.SIGABRT) },
	"SIGSEGV": func() { signalSelf(syscall.SIGSEGV) },
	"SIGPIPE": func() {
		r, w, err := os.Pipe()
		check(err)
		check(unix.Dup3(int(w.Fd()), 1, 0))
		r.Close()
		fmt.Println("to nobody")
	},
	"crash": func() { debug.SetTraceback("crash"); panic("as intended") },

	"alone deadlock":      func() { select {} },
	"alone deadlock lock": func() { var mu sync.Mutex; mu.Lock(); mu.Lock() },
	"alone Goexit":        func() { runtime.Goexit() },
	"Goexit, then exits": func() {
		go func() {
			for !stopped.Load() {
				time.Sleep(time.Millisecond)
			}
			os.Exit(3)
		}()
		runtime.Goexit()
	},
})

var pointer *int

//go:noinline
func forever(n int) int { return forever(n+1) + 1 }

// signalSelf sends a signal to this process and waits for its effect.
func signalSelf(s syscall.Signal) {
	check(syscall.Kill(os.Getpid(), s))
	time.Sleep(time.Minute)
}
