// Command core has goroutines that wait for each other, and says so when all of them are where they stay.
package main

import (
	"io"
	"os"
	"sync"
)

type cache struct{ mu sync.Mutex }

func (c *cache) load(loaded chan int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	<-loaded
}

func (c *cache) get() {
	c.mu.Lock()
	defer c.mu.Unlock()
}

type pair struct{ a, b sync.Mutex }

func (p *pair) one(both *sync.WaitGroup) {
	p.a.Lock()
	defer p.a.Unlock()
	both.Done()
	both.Wait()
	p.b.Lock()
	defer p.b.Unlock()
}

func (p *pair) two(both *sync.WaitGroup) {
	p.b.Lock()
	defer p.b.Unlock()
	both.Done()
	both.Wait()
	p.a.Lock()
	defer p.a.Unlock()
}

func main() {
	c, p, both := &cache{}, &pair{}, &sync.WaitGroup{}
	both.Add(2)
	go p.one(both)
	go p.two(both)
	loaded := make(chan int)
	go c.load(loaded)
	for c.mu.TryLock() {
		c.mu.Unlock()
	}
	for range 5 {
		go c.get()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}
