package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// consumers are four pipelines, each with a consumer that is slower than who sends to it.
func consumers(stop <-chan struct{}) {
	ranged, called, selected, jobs := make(chan int), make(chan int, 2), make(chan int), &queue{in: make(chan string, 1)}
	for i := range 2 {
		start(func() { produce(ranged, "ranged", 3*i, stop) })
	}
	start(func() { produce(called, "called", 0, stop) })
	start(func() { produce(selected, "selected", 1, stop) })
	start(func() {
		until(stop, func(n int) {
			pause(1, n)
			wait("jobs", func() { jobs.put(fmt.Sprint(n)) })
		})
	})
	start(func() {
		label("is", "ranged")
		for v := range ranged {
			consume(v, 12)
		}
	})
	start(func() {
		label("is", "called")
		for {
			consume(<-called, 30)
		}
	})
	start(func() {
		label("is", "selected")
		selectLoop(selected, stop)
	})
	start(func() {
		label("is", "jobs")
		(&worker{queue: jobs}).run()
	})
}

func produce(out chan<- int, name string, ms int, stop <-chan struct{}) {
	until(stop, func(n int) {
		pause(ms, n)
		wait(name, func() { out <- n })
	})
}

func consume(n, ms int) int { pause(ms, n); return n }

func selectLoop(in <-chan int, stop <-chan struct{}) {
	for {
		select {
		case v := <-in:
			consume(v, 20)
		case <-stop:
			return
		}
	}
}

type queue struct{ in chan string }

func (q *queue) put(s string) { q.in <- s }

type worker struct{ queue *queue }

func (w *worker) run() {
	for {
		job := <-w.queue.in
		w.handle(job)
	}
}

func (w *worker) handle(job string) {
	end := time.Now().Add(time.Duration(15+len(job)) * time.Millisecond)
	for n := 0; time.Now().Before(end); n++ {
		if n%1000 == 0 {
			time.Sleep(time.Millisecond) // busy, but not all the time
		}
	}
}

type question struct {
	name   string
	n      int
	answer chan int
}

// answers are workers that answer each question on a channel of its own.
func answers(stop <-chan struct{}) {
	questions := make(chan question)
	for range 3 {
		start(func() { answer(questions) })
	}
	for i := range 3 {
		start(func() {
			until(stop, func(n int) { ask(questions, i, n) })
		})
	}
	// Whoever sends next to one receiver.
	results := make(chan int)
	for i := range 3 {
		start(func() {
			until(stop, func(n int) {
				be("sender", func() { pause(25+10*i, n) })
				results <- n
			})
		})
	}
	start(func() {
		until(stop, func(int) { wait("sender", func() { <-results }) })
	})
}

func answer(questions <-chan question) {
	for q := range questions {
		be(q.name, func() { pause(8, q.n) })
		q.answer <- q.n
	}
}

func ask(questions chan<- question, i, n int) {
	q := question{name: fmt.Sprintf("answer-%d-%d", i, n), n: n, answer: make(chan int)}
	questions <- q
	wait(q.name, func() { <-q.answer })
	pause(2, n)
}

// children are goroutines that a goroutine starts and waits for.
func children(stop <-chan struct{}) {
	for i := range 2 {
		start(func() {
			until(stop, func(n int) {
				name := fmt.Sprintf("child-%d-%d", i, n)
				wait(name, func() { _ = childAnswer(name, n) })
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				name = "closer" + name
				wait(name, func() { childCloses(ctx, name, n) })
				cancel()
			})
		})
	}
	// A child that ends because its parent does, and never is a cause.
	start(func() {
		until(stop, func(n int) {
			ctx, cancel := context.WithCancel(context.Background())
			start(func() { <-ctx.Done() })
			start(func() { watch(ctx) })
			tick := time.NewTimer(time.Duration(5+n%20) * time.Millisecond)
			wait("timer", func() { <-tick.C })
			cancel()
		})
	})
	start(func() {
		until(stop, func(n int) {
			var group sync.WaitGroup
			for i := range 4 {
				group.Add(1)
				start(func() {
					defer group.Done()
					be("group", func() { pause(3+4*i, n) })
				})
			}
			wait("group", group.Wait)
		})
	})
}

func childAnswer(name string, n int) int {
	c := make(chan int, 1)
	start(func() {
		label("is", name)
		pause(10, n)
		c <- n
	})
	return <-c
}

func childCloses(ctx context.Context, name string, n int) {
	done := make(chan struct{})
	start(func() {
		label("is", name)
		defer close(done)
		pause(14, n)
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func watch(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
}

var smallPool = make(chan struct{}, 2)

// places are channels that are used as semaphores, the limit of an errgroup, and a mutex.
func places(stop <-chan struct{}) {
	for i := range 5 {
		start(func() {
			until(stop, func(n int) {
				limited(i, n)
				pause(1, n)
			})
		})
	}
	start(func() {
		until(stop, func(int) {
			var group errgroup.Group
			group.SetLimit(2)
			for n := range 20 {
				wait("group", func() {
					group.Go(func() error {
						forget()
						be("group", func() { pause(6, n) })
						labels.end()
						return nil
					})
				})
			}
			check(group.Wait())
		})
	})
	var mu sync.Mutex
	for range 3 {
		start(func() {
			until(stop, func(n int) {
				wait("mutex", mu.Lock)
				be("mutex", func() { locked(n) })
				mu.Unlock()
			})
		})
	}
}

func limited(i, n int) {
	label("until", "place")
	smallPool <- struct{}{}
	label("until", "")
	defer func() { <-smallPool }()
	be("place", func() { pause(5+i, n) })
}

func locked(n int) { pause(4, n) }

// forget drops the labels that a goroutine has from the one that started it.
func forget() { label("until", "") }
