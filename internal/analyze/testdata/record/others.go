package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// A worker does jobs, one after the other, before and after a change of it: that uses 2 % of a core more, and each job
// waits for 5 ms more.
var diffs = []program{
	{"before", 3 * second, 10, (&worker{}).run},
	{"again", 3 * second, 10, (&worker{}).run},
	{"after", 3 * second, 10, (&worker{extra: ms, wait: 5 * ms}).run},
}

type worker struct {
	extra time.Duration // what one goroutine computes in 50 ms, in addition
	wait  time.Duration // what each job waits, in addition
}

var computed uint64 // by one goroutine

//go:noinline
func usualWork(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
		for range 20_000 {
			computed++
		}
	}
}

//go:noinline
func plantedWork(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
		for range 20_000 {
			computed--
		}
	}
}

//go:noinline
func plantedRetry(d time.Duration) { time.Sleep(d) }

//go:noinline
func usualQuery() { time.Sleep(8 * ms) }

func (w *worker) run(p *planted) {
	p.goes(4, func(uint64) {
		usualQuery()
		if w.wait > 0 {
			from := time.Now()
			plantedRetry(w.wait)
			p.mu.Lock()
			p.log.Waited += time.Since(from).Microseconds()
			p.mu.Unlock()
		}
	})
	p.goes(1, func(uint64) {
		usualWork(4 * ms)
		if w.extra > 0 {
			plantedWork(w.extra)
		}
		time.Sleep(45 * ms)
	})
}

// Servers whose connections stay open. A few of 100 requests take a longer path.
var requests = []program{
	{"requests", 3 * second, 10, func(p *planted) { serve(p, 8*ms, 5) }},
	{"requests-default-budget", 3 * second, 0, func(p *planted) { serve(p, 25*ms, 5) }},
	{"requests-short", 3 * second, 0, func(p *planted) { serve(p, 6*ms, 2) }},
	{"leaky-server", 3 * second, 0, leakyServer},
}

func serve(p *planted, usual time.Duration, long int) {
	p.early = true
	for range 50 { // leaked beside them
		p.all.Go(func() { <-p.stop })
	}
	var n atomic.Int64
	request(p, 4, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		begin := time.Now()
		usualPath(usual)
		after := time.Since(begin)
		if int(n.Add(1))%100 < long {
			longPath()
		}
		_, _ = io.WriteString(w, "done")
		p.served(begin, time.Since(begin)-after)
	}))
}

// served notes a request.
func (p *planted) served(begin time.Time, long time.Duration) {
	took := time.Since(begin).Microseconds()
	p.mu.Lock()
	p.log.Requests = append(p.log.Requests, [2]int64{took, long.Microseconds()})
	p.mu.Unlock()
}

//go:noinline
func usualPath(d time.Duration) { time.Sleep(d) }

//go:noinline
func longPath() { time.Sleep(50 * ms) }

// request sends requests to a handler from another process, as most servers have them, for the length of the session.
func request(p *planted, clients int, h http.Handler) {
	server := httptest.NewServer(h)
	defer server.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RECORD_URL="+server.URL, "RECORD_CLIENTS="+strconv.Itoa(clients), "RECORD_FOR="+p.length.String())
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		panic(err)
	}
}

// leakyServer is a server whose handlers need a lock that a goroutine holds for long at times. Each request leaves a
// goroutine behind.
func leakyServer(p *planted) {
	p.early = true
	var mu sync.Mutex
	p.goes(1, func(id uint64) {
		mu.Lock()
		begin := p.now()
		time.Sleep(60 * ms)
		p.held(unsafe.Pointer(&mu), id, begin)
		mu.Unlock()
		time.Sleep(300 * ms)
	})
	request(p, 4, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		begin := time.Now()
		p.all.Go(func() { leakedByRequest(p.stop) })
		time.Sleep(15 * ms)
		id := ownID()
		mu.Lock()
		p.held(unsafe.Pointer(&mu), id, p.now())
		mu.Unlock()
		_, _ = io.WriteString(w, "done")
		p.served(begin, 0)
	}))
}

func leakedByRequest(never chan struct{}) { <-never }

// clients sends requests from clients that keep their connections.
func clients(url string) error {
	count, err := strconv.Atoi(os.Getenv("RECORD_CLIENTS"))
	if err != nil {
		return err
	}
	length, err := time.ParseDuration(os.Getenv("RECORD_FOR"))
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for range count {
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			for begin := time.Now(); time.Since(begin) < length; {
				r, err := client.Get(url)
				if err != nil {
					panic(err)
				}
				_, _ = io.Copy(io.Discard, r.Body)
				r.Body.Close()
			}
		})
	}
	all.Wait()
	return nil
}

var others = []program{
	{"leaks", 3 * second, 10, leaks},
	{"fan-out", second, 10, fanOuts},
}

// leaks has goroutines that end, a pool that grows and is used, and a leak.
func leaks(p *planted) {
	p.early = true
	never, jobs := make(chan int), make(chan int)
	for time.Since(p.begin) < p.length {
		go leakyReply(never)
		p.log.Leaked++
		p.all.Go(func() { busyWorker(jobs, p.stop) })
		for range 20 {
			p.all.Go(func() { time.Sleep(ms) })
		}
		for i := range p.log.Leaked { // every worker has a job
			jobs <- i
		}
		time.Sleep(50 * ms)
	}
}

func leakyReply(c chan int) { <-c }

func busyWorker(jobs chan int, done chan struct{}) {
	for {
		select {
		case <-jobs:
			spin(200 * time.Microsecond)
			time.Sleep(2 * ms)
		case <-done:
			return
		}
	}
}

// fanOuts waits for three goroutines, of which one takes longer because of a lock that another goroutine holds.
func fanOuts(p *planted) {
	s := &store{}
	p.goes(1, func(id uint64) { s.refresh(p, id) })
	p.goes(1, func(uint64) { p.log.Waited += fanOut(s).Microseconds() })
}

// fanOut waits for three goroutines and returns for how long.
func fanOut(s *store) time.Duration {
	var all sync.WaitGroup
	all.Go(func() { time.Sleep(ms) })
	all.Go(func() { spin(ms) })
	all.Go(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		time.Sleep(ms)
	})
	begin := time.Now()
	all.Wait()
	return time.Since(begin)
}
