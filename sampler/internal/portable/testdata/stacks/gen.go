//go:build ignore

// Gen prints the output of runtime.Stack for goroutines of every kind. The files in this directory
// are its output:
//
//	GOTOOLCHAIN=go1.25.3 go run -trimpath gen.go >go1.25.txt
//	GOTOOLCHAIN=go1.26.8 go run -trimpath gen.go >go1.26.txt
//	GOTOOLCHAIN=go1.26.8 GODEBUG=tracebacklabels=1 GOEXPERIMENT=goroutineleakprofile go run -trimpath gen.go >go1.26-labels.txt
//	GOTOOLCHAIN=go1.27.0 GODEBUG=tracebacklabels=1 go run -trimpath gen.go >go1.27.txt
//	GOTOOLCHAIN=go1.27.0 GODEBUG=tracebackancestors=5,tracebacklabels=0 go run -trimpath gen.go >go1.27-ancestors.txt
//
// It waits a minute, because the runtime prints waiting times in minutes.
package main

import (
	"context"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var (
	never    = make(chan int)
	mutex    sync.Mutex
	rw       sync.RWMutex
	group    sync.WaitGroup
	cond     = sync.NewCond(new(sync.Mutex))
	listener net.Listener
	pipe     [2]int
	counter  int
)

func chanReceive()    { <-never }
func chanSend()       { full := make(chan int); keep = append(keep, full); full <- 1 }
func nilChanReceive() { <-(chan int)(nil) }
func nilChanSend()    { (chan int)(nil) <- 1 }
func selectTwo() {
	select {
	case <-never:
	case <-time.After(time.Hour):
	}
}
func selectNone()   { select {} }
func mutexLock()    { mutex.Lock() }
func rwLock()       { rw.Lock() }
func rwRLock()      { rw.RLock() }
func groupWait()    { group.Wait() }
func condWait()     { cond.L.Lock(); cond.Wait() }
func sleep()        { time.Sleep(time.Hour) }
func ioWait()       { listener.Accept() }
func readSyscall()  { var b [1]byte; syscall.Read(pipe[0], b[:]) }
func threadLocked() { runtime.LockOSThread(); <-never }
func spin() {
	for {
		counter++
	}
}
func recurse(n int) int {
	if n == 0 {
		<-never
	}
	return recurse(n-1) + 1
}
func deep()                { recurse(150) }
func panicking()           { defer func() { <-never }(); panic("in a deferred call") }
func inlined()             { tiny() }
func tiny()                { <-never }
func generic()             { wait[int](never) }
func wait[T any](c chan T) { <-c }

type thing struct{ c chan int }

func (t *thing) pointerMethod(a int, b string, c []int, d float64) { <-t.c }
func (t thing) valueMethod()                                       { <-t.c }

func leaks() { c := make(chan int); go func() { c <- 1 }() }

var keep []chan int

func labelled(kv ...string) {
	pprof.Do(context.Background(), pprof.Labels(kv...), func(context.Context) { <-never })
}

func bubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		go func() { time.Sleep(time.Hour) }()
		go func() { mutex.Lock() }()
		c := make(chan int)
		go func() { <-c }()
		dump()
		os.Exit(0)
	})
}

func dump() {
	for _, p := range []string{"goroutineleak"} {
		if p := pprof.Lookup(p); p != nil {
			p.WriteTo(io.Discard, 0)
		}
	}
	time.Now()
	buf := make([]byte, 1<<20)
	os.Stdout.Write(buf[:runtime.Stack(buf, true)])
}

func main() {
	mutex.Lock()
	rw.Lock()
	group.Add(1)
	listener, _ = net.Listen("tcp", "127.0.0.1:0")
	syscall.Pipe(pipe[:])
	th := &thing{never}
	for _, f := range []func(){
		chanReceive, chanSend, nilChanReceive, nilChanSend, selectTwo, selectNone, mutexLock, rwLock, rwRLock,
		groupWait, condWait, sleep, ioWait, readSyscall, threadLocked, deep, panicking, inlined, generic,
		th.valueMethod,
		func() { th.pointerMethod(1, "two", []int{3}, 4) },
		func() { labelled("simple", "value") },
		func() { labelled("b", "2", "a/b_c.d", "1", "with space", "x:y, {z}]\n") },
		func() {
			labelled("quo\"te", "back\\slash\ttab\r\x00\x1b\x7f", "uni\u03a3", "\U0001f600 \xfd\xff", "", "")
		},
		leaks,
	} {
		go f()
	}
	time.Sleep(100 * time.Millisecond)
	runtime.GC() // stamps waiting goroutines with the time
	time.Sleep(61 * time.Second)
	go spin()
	testing.Main(func(_, _ string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "bubble", F: bubble}}, nil, nil)
}
