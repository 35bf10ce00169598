package main

import (
	"sync"
	"time"
	"unsafe"
)

const (
	ms     = time.Millisecond
	second = time.Second
)

// Programs that keep a log of all their locks.
var locks = []program{
	{"sleeps", second, 10, func(p *planted) {
		s := &store{}
		p.goes(4, func(id uint64) { s.sleepy(p, id) })
	}},
	{"computes", second, 10, func(p *planted) {
		s := &store{}
		p.goes(4, func(id uint64) { s.compute(p, id, ms) })
	}},
	{"computes-shortly", second / 4, 10, func(p *planted) {
		s := &store{}
		p.goes(4, func(id uint64) { s.compute(p, id, 50*time.Microsecond) })
	}},
	{"refresher", second, 10, func(p *planted) {
		s := &store{}
		p.goes(1, func(id uint64) { s.refresh(p, id) })
		p.goes(4, func(id uint64) { s.lookUp(p, id) })
	}},
	{"two-of-one-type", second, 10, func(p *planted) {
		for range 2 {
			s := &store{}
			p.goes(3, func(id uint64) { s.sleepy(p, id) })
		}
	}},
	{"slow-reader", second, 10, func(p *planted) {
		s := &store{}
		p.goes(1, func(id uint64) { s.readSlowly(p, id) })
		p.goes(3, func(id uint64) { s.write(p, id) })
	}},
	{"nested", second, 10, func(p *planted) {
		a, b := &store{}, &store{}
		p.goes(2, func(id uint64) { a.nested(p, b, id) })
		p.goes(2, func(id uint64) { b.sleepy(p, id) })
	}},
}

// store is a type with locks.
type store struct {
	mu    sync.Mutex
	table sync.RWMutex
}

func (s *store) sleepy(p *planted, id uint64) {
	s.mu.Lock()
	begin := p.now()
	time.Sleep(3 * ms)
	p.held(unsafe.Pointer(&s.mu), id, begin)
	s.mu.Unlock()
	time.Sleep(ms)
}

func (s *store) compute(p *planted, id uint64, d time.Duration) {
	s.mu.Lock()
	begin := p.now()
	defer s.mu.Unlock()
	spin(d)
	p.held(unsafe.Pointer(&s.mu), id, begin)
}

func (s *store) refresh(p *planted, id uint64) {
	s.mu.Lock()
	begin := p.now()
	s.load()
	p.held(unsafe.Pointer(&s.mu), id, begin)
	s.mu.Unlock()
	time.Sleep(10 * ms)
}

func (s *store) load() { time.Sleep(30 * ms) }

func (s *store) lookUp(p *planted, id uint64) {
	s.mu.Lock()
	begin := p.now()
	p.held(unsafe.Pointer(&s.mu), id, begin)
	s.mu.Unlock()
	time.Sleep(2 * ms)
}

func (s *store) readSlowly(p *planted, id uint64) {
	s.table.RLock()
	begin := p.now()
	s.load()
	p.held(unsafe.Pointer(&s.table), id, begin)
	s.table.RUnlock()
	time.Sleep(2 * ms)
}

func (s *store) write(p *planted, id uint64) {
	s.table.Lock()
	defer s.table.Unlock()
	begin := p.now()
	spin(200 * time.Microsecond)
	p.held(unsafe.Pointer(&s.table), id, begin)
}

// nested holds mu while it waits for other.mu.
func (s *store) nested(p *planted, other *store, id uint64) {
	s.mu.Lock()
	begin := p.now()
	other.mu.Lock()
	second := p.now()
	time.Sleep(5 * ms)
	p.held(unsafe.Pointer(&other.mu), id, second)
	other.mu.Unlock()
	p.held(unsafe.Pointer(&s.mu), id, begin)
	s.mu.Unlock()
	time.Sleep(ms)
}
