// Command target has goroutines that wait in many ways. It prints runtime.Stack for each line that it reads, and an empty page after it.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"
)

type thing struct{ c chan int }

type waiter interface{ wait(int) }

func (t *thing) wait(int) { <-t.c }

//go:noinline
func deep(n int, c chan int) byte {
	var room [300]byte
	if n == 0 {
		<-c
		return room[1]
	}
	room[n%300] = 1
	return deep(n-1, c) + room[2]
}

func generic[T any](c chan T) { <-c }

func inlined(c chan int) { alsoInlined(c) }

func alsoInlined(c chan int) { <-c }

func move(d time.Duration) {
	for {
		time.Sleep(d)
		go func() {}()
	}
}

func burn() {
	var b [4096]byte
	for {
		s := sha256.Sum256(b[:])
		b[0] = s[0]
	}
}

// chains has call paths of two kinds: a calls only b, b only c, c only a; x calls only y, y only z, z only x. Frames of both are at the same addresses,
// and the stack grows and shrinks all the time. So what is read breaks the pattern if it is a part of each of two stacks.
func chains(r *rand.Rand) {
	for {
		if n := r.Intn(60); n&1 == 0 {
			a(r, n)
		} else {
			x(r, n)
		}
	}
}

//go:noinline
func a(r *rand.Rand, n int) int {
	if n <= 0 {
		return tip(r)
	}
	var pad [17]int
	pad[n%17] = n
	return b(r, n-1) + pad[(n+1)%17]
}

//go:noinline
func b(r *rand.Rand, n int) int {
	if n <= 0 {
		return tip(r)
	}
	return c(r, n-1) + 1
}

//go:noinline
func c(r *rand.Rand, n int) int {
	if n <= 0 {
		return tip(r)
	}
	var pad [400]byte
	pad[n%400] = byte(n)
	return a(r, n-1) + int(pad[(n+1)%400])
}

//go:noinline
func x(r *rand.Rand, n int) int {
	if n <= 0 {
		return tip(r)
	}
	var pad [17]int
	pad[n%17] = n
	return y(r, n-1) + pad[(n+1)%17]
}

//go:noinline
func y(r *rand.Rand, n int) int {
	if n <= 0 {
		return tip(r)
	}
	return z(r, n-1) + 1
}

//go:noinline
func z(r *rand.Rand, n int) int {
	if n <= 0 {
		return tip(r)
	}
	var pad [400]byte
	pad[n%400] = byte(n)
	return x(r, n-1) + int(pad[(n+1)%400])
}

var garbage = make([][]byte, 100)

//go:noinline
func tip(r *rand.Rand) (n int) {
	switch r.Intn(5) {
	case 0:
		garbage[r.Intn(100)] = make([]byte, 100+r.Intn(2000))
	case 1:
		runtime.Gosched()
	case 2:
		for i := r.Intn(20000); i > 0; i-- {
			n = n*7 + 1
		}
	case 3:
		os.Getppid()
	case 4:
		time.Sleep(time.Duration(r.Intn(50)) * time.Microsecond)
	}
	return n
}

// rounds computes, hands what it has to another goroutine, and gets it back, so many times.
func rounds(n int) {
	var b [4096]byte
	there, back := make(chan byte), make(chan byte)
	go func() {
		for x := range there {
			back <- x + 1
		}
	}()
	for i := 0; i < n; i++ {
		s := sha256.Sum256(b[:])
		there <- s[0]
		b[0] = <-back
	}
	close(there)
}

func main() {
	c := make(chan int)
	var mu sync.Mutex
	var wg sync.WaitGroup
	cond := sync.NewCond(new(sync.Mutex))
	mu.Lock()
	wg.Add(1)
	t := &thing{c}
	go t.wait(1)
	f := t.wait
	go f(2)
	var w waiter = t
	go w.wait(3)
	for i := 0; i < 20; i++ {
		go deep(i*3, c)
	}
	go generic(make(chan map[string]int))
	go func() { inlined(c) }()
	go func(int) { mu.Lock() }(1)
	go func() { wg.Wait() }()
	go func() { cond.L.Lock(); cond.Wait() }()
	go func() {
		select {
		case <-c:
		case make(chan int) <- 1:
		case <-time.After(time.Hour):
		}
	}()
	go time.Sleep(time.Hour)
	go func() {
		defer func() { recover(); <-c }()
		panic("waits while it panics")
	}()
	go pprof.Do(context.Background(), pprof.Labels("tenant", "a", "kind", "test"), func(context.Context) { <-c })
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		go l.Accept()
	}
	for _, arg := range os.Args[1:] {
		switch arg {
		case "move":
			for i := 1; i < 20; i++ {
				go move(time.Duration(i) * 100 * time.Microsecond)
			}
		case "burn":
			go burn()
		case "one":
			runtime.GOMAXPROCS(1)
		case "chains":
			for i := 0; i < 20; i++ {
				go chains(rand.New(rand.NewSource(int64(i))))
			}
			go func() {
				for {
					runtime.GC()
				}
			}()
		case "hide":
			syscall.Syscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0)
		}
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "exec" {
			syscall.Exec("/bin/sleep", []string{"sleep", "60"}, nil)
		}
		if in.Text() == "rounds" {
			began := time.Now()
			rounds(50000)
			fmt.Println(time.Since(began).Nanoseconds())
			continue
		}
		b := make([]byte, 1<<20)
		fmt.Printf("%s\n\f\n", b[:runtime.Stack(b, true)])
	}
}
