package main

import "sync"

type cache struct {
	mu    sync.Mutex
	table sync.RWMutex
}

func (c *cache) plain() {
	before()
	c.mu.Lock()
	work()             // held
	for i := range 3 { // held
		more(i) // held
	}
	c.mu.Unlock()
	after()
}

func (c *cache) deferred(ok bool) int {
	before()
	c.mu.Lock()
	defer c.mu.Unlock()
	if ok { // held
		return 1 // held
	}
	return 2 // held
} // held

func (c *cache) literal() {
	c.mu.Lock()
	defer func() {
		c.mu.Unlock()
	}()
	work() // held
} // held

func (c *cache) early(ok bool) {
	c.mu.Lock()
	if ok { // held
		c.mu.Unlock()
		after()
		return
	}
	work() // held
	c.mu.Unlock()
	after()
}

func (c *cache) branches(n int) {
	c.table.RLock()
	switch n { // held
	case 1: // held
		c.table.RUnlock()
		after()
		return
	case 2: // held
		work() // held
	default: // held
		panic("no") // held
	}
	c.table.RUnlock()
	after()
}

func (c *cache) loop() {
	for {
		c.mu.Lock()
		work() // held
		c.mu.Unlock()
		after()
	}
}

func (c *cache) again() {
	c.mu.Lock()
	for more(0) { // held
		work() // held
		c.mu.Unlock()
		after()
		c.mu.Lock()
	}
	work() // held
	c.mu.Unlock()
}

func (c *cache) try() {
	if !c.mu.TryLock() {
		after()
		return
	}
	work() // held
	c.mu.Unlock()
}

func (c *cache) tried() {
	if c.mu.TryLock() {
		work() // held
		c.mu.Unlock()
	}
	after()
}

func (c *cache) lock() { c.mu.Lock() }

func (c *cache) unlock() { c.mu.Unlock() }

func (c *cache) wrapped() {
	before()
	c.lock()
	work() // held
	c.unlock()
	after()
}

func (c *cache) wrappedToo() {
	c.lock()
	defer c.unlock()
	work() // held
} // held

func run(c *cache) {
	do(func() {
		c.mu.Lock()
		work() // held
		c.mu.Unlock()
	})
	after()
}
