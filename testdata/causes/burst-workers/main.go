// Workers take jobs from a channel when there are some; a timer makes them in bursts.
package main

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

func work(jobs <-chan []byte, wg *sync.WaitGroup) {
	defer wg.Done()
	for b := range jobs {
		for range 30 {
			sum := sha256.Sum256(b)
			copy(b, sum[:])
		}
	}
}

func produce(ctx context.Context, jobs chan<- []byte) {
	defer close(jobs)
	for {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return
		}
		for range 8 {
			jobs <- make([]byte, 20_000)
		}
	}
}

func main() {
	defer profiler.Start().Stop()
	jobs := make(chan []byte, 16)
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go work(jobs, &wg)
	}
	produce(run.Context(), jobs)
	wg.Wait()
}
