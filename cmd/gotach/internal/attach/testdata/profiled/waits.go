package main

import (
	"runtime"
	"sync"
	"time"
)

var global sync.Mutex

type account struct {
	_  int
	mu sync.Mutex
}

func globally() {
	for {
		global.Lock()
		time.Sleep(2 * time.Millisecond)
		global.Unlock()
	}
}

func (a *account) pay() {
	for {
		a.mu.Lock()
		time.Sleep(2 * time.Millisecond)
		a.mu.Unlock()
	}
}

func readLock(l *sync.RWMutex) { l.RLock() }
func group(g *sync.WaitGroup)  { g.Wait() }
func receive(c chan int)       { <-c }
func send(c chan int)          { c <- 1 }
func condition(c *sync.Cond)   { c.L.Lock(); c.Wait() }
func choose(a, b, alone chan int) {
	select {
	case <-a:
	case <-b:
	case <-alone:
	}
}

func feed(c chan int) {
	for {
		c <- 1
	}
}

func collect() {
	for {
		runtime.GC()
		time.Sleep(50 * time.Millisecond)
	}
}

func take(c chan int) {
	for range c {
		time.Sleep(time.Millisecond)
	}
}

// waits has goroutines that wait for objects of each kind. The more goroutines wait for an object at a time, the more time they wait for it: the
// differences are large.
func waits() {
	many := func(n int, f func()) {
		for range n {
			go f()
		}
	}
	a, rw, wg, cond := &account{}, new(sync.RWMutex), new(sync.WaitGroup), sync.NewCond(new(sync.Mutex))
	full, none, work, other, third := make(chan int, 3), make(chan int), make(chan int), make(chan int), make(chan int)
	rw.Lock()
	wg.Add(1)
	for range cap(full) {
		full <- 1
	}
	many(2, globally)                 // one waits at a time
	many(4, a.pay)                    // three
	many(6, func() { readLock(rw) })  // six
	many(4, func() { send(full) })    // four
	many(7, func() { receive(none) }) // seven
	many(10, func() { choose(other, third, make(chan int)) })
	many(13, func() { group(wg) })
	many(17, func() { condition(cond) })
	many(24, func() { feed(work) }) // nearly all
	go take(work)
	go collect()
}
