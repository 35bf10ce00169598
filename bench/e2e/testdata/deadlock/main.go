// Command deadlock waits in the way that its argument names, in a session if PROFILE_OUT is set. If the wait
// ends it prints "ok".
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/gotach/profiler"
)

const long = 3500 * time.Millisecond // longer than a session needs to find a deadlock

// beside starts goroutines that also wait and never end.
func beside() {
	var mu sync.Mutex
	mu.Lock()
	go mu.Lock()
	go func() {
		runtime.LockOSThread()
		select {}
	}()
}

// dead are programs in which the runtime reports a deadlock.
var dead = map[string]func(){
	"channel": func() { <-make(chan int) },
	"nil":     func() { var c chan int; c <- 1 },
	"mutex":   func() { var mu sync.RWMutex; mu.RLock(); mu.Lock() },
	"group":   func() { var g sync.WaitGroup; g.Add(1); beside(); g.Wait() },
	"cond":    func() { var mu sync.Mutex; c := sync.NewCond(&mu); mu.Lock(); c.Wait() },
	"select": func() {
		beside()
		select {
		case <-make(chan int):
		case make(chan string) <- "":
		}
	},
	"goexit": func() { runtime.Goexit() },
	"cancelled timer": func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		time.Sleep(10 * time.Millisecond)
		cancel()
		time.Sleep(10 * time.Millisecond)
		<-ctx.Done()
		<-make(chan int)
	},
	"after work": func() {
		done := make(chan bool)
		for range 4 {
			go func() {
				for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
				}
				done <- true
			}()
		}
		for {
			<-done
		}
	},
}

// alive are programs that something wakes after a while.
var alive = map[string]func(){
	"sleep": func() { beside(); time.Sleep(long) },
	"after": func() {
		beside()
		select {
		case <-time.After(long):
		case <-make(chan int):
		}
	},
	"afterfunc": func() { c := make(chan int); time.AfterFunc(long, func() { c <- 1 }); <-c },
	"timers": func() { // timers that fire at any time, without a waiting goroutine
		var tick *time.Timer
		tick = time.AfterFunc(time.Millisecond, func() { tick.Reset(2 * time.Millisecond) })
		c := make(chan int)
		time.AfterFunc(long, func() { c <- 1 })
		<-c
	},
	"fast ticker": func() {
		c := make(chan int)
		go func() {
			for t := time.NewTicker(2 * time.Millisecond); ; {
				<-t.C
			}
		}()
		time.AfterFunc(long, func() { c <- 1 })
		<-c
	},
	"ticker": func() {
		for t := time.NewTicker(long / 2); ; {
			<-t.C
			<-t.C
			return
		}
	},
	"deadline": func() {
		ctx, cancel := context.WithTimeout(context.Background(), long)
		defer cancel()
		<-ctx.Done()
	},
	"syscall": func() {
		ts := syscall.NsecToTimespec(int64(long))
		_ = syscall.Nanosleep(&ts, nil)
	},
	"command": func() { fail(exec.Command("sleep", "3.5").Run()) },
	"pipe": func() {
		r, w, err := os.Pipe()
		fail(err)
		cmd := exec.Command("sh", "-c", "sleep 3.5; echo x")
		cmd.Stdout = w
		fail(cmd.Start())
		w.Close()
		io.ReadAll(r)
		fail(cmd.Wait())
	},
	"pipe alone": func() {
		r, w, err := os.Pipe()
		fail(err)
		cmd := exec.Command("sh", "-c", "sleep 3.5; echo x")
		cmd.Stdout = w
		fail(cmd.Start()) // without cmd.Wait
		w.Close()
		io.ReadAll(r)
	},
	"signal": func() {
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGUSR1)
		fail(exec.Command("sh", "-c", "(sleep 3.5; kill -USR1 $PPID) &").Start())
		<-c
	},
}

func fail(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	if f := dead[os.Args[1]]; f != nil {
		if os.Getenv("PROFILE_OUT") != "" {
			profiler.Start()
		}
		f()
	}
	s := profiler.Start()
	alive[os.Args[1]]()
	fail(s.Stop())
	fmt.Println("ok")
}
