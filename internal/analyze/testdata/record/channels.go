package main

import (
	"time"
	"unsafe"
)

// Programs that keep a log of who has a place in a channel, or who could receive from it.
var channels = []program{
	{"places", second, 10, func(p *planted) {
		s := &slots{make(chan struct{}, 2)}
		p.goes(5, func(id uint64) { p.direct(s, id) })
	}},
	{"places-in-select", second, 10, func(p *planted) {
		s := &slots{make(chan struct{}, 2)}
		p.goes(5, func(id uint64) { p.inSelect(s, id, p.stop) })
	}},
	{"places-wrapped", second, 10, func(p *planted) {
		s := &slots{make(chan struct{}, 1)}
		p.goes(3, func(id uint64) { p.wrapped(s, id) })
	}},
	{"places-of-goroutines", second, 10, func(p *planted) {
		s := &slots{make(chan struct{}, 2)}
		p.early = true
		p.goes(2, func(uint64) {
			s.free <- struct{}{}
			begin := p.now()
			p.all.Go(func() {
				defer func() { <-s.free }()
				id := ownID()
				time.Sleep(25 * ms)
				p.heldPlace(s.free, id, begin)
			})
		})
	}},
	{"rendezvous", second, 10, func(p *planted) {
		jobs := make(chan int)
		p.early = true
		p.goes(1, func(id uint64) { p.consume(jobs, id) })
		for range 3 {
			p.all.Go(func() {
				for !p.stopped() {
					p.produce(jobs)
				}
			})
		}
		p.all.Go(func() { // nobody waits at the end
			<-p.stop
			drain(jobs)
		})
	}},
}

// slots are a channel with a place for each goroutine that may do something at a time.
type slots struct{ free chan struct{} }

func (s *slots) acquire() { s.free <- struct{}{} }
func (s *slots) release() { <-s.free }

// heldPlace notes that a goroutine had a place, or was what others waited for.
func (p *planted) heldPlace(channel any, id uint64, begin int64) {
	p.held(*(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(&channel), unsafe.Sizeof(uintptr(0)))), id, begin)
}

func (p *planted) direct(s *slots, id uint64) {
	s.free <- struct{}{}
	begin := p.now()
	time.Sleep(4 * ms)
	p.heldPlace(s.free, id, begin)
	<-s.free
	time.Sleep(ms)
}

func (p *planted) inSelect(s *slots, id uint64, cancel chan struct{}) {
	select {
	case s.free <- struct{}{}:
		defer func() { <-s.free }()
	case <-cancel:
		return
	}
	begin := p.now()
	time.Sleep(4 * ms)
	p.heldPlace(s.free, id, begin)
}

func (p *planted) wrapped(s *slots, id uint64) {
	s.acquire()
	defer s.release()
	begin := p.now()
	time.Sleep(3 * ms)
	p.heldPlace(s.free, id, begin)
}

func (p *planted) produce(jobs chan int) { jobs <- 1 }

// consume takes jobs, with which it sleeps. Producers wait for it.
func (p *planted) consume(jobs chan int, id uint64) {
	<-jobs
	begin := p.now()
	time.Sleep(5 * ms)
	p.heldPlace(jobs, id, begin)
}

// drain receives for a while.
func drain(jobs chan int) {
	for end := time.After(100 * ms); ; {
		select {
		case <-jobs:
		case <-end:
			return
		}
	}
}
