// Reports are made by a worker. Who has ordered one looks every 25 ms whether it is there.
package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type reports struct {
	mu    sync.Mutex
	ready map[string]string
	queue chan string
}

func (s *reports) work(ctx context.Context) {
	for {
		select {
		case id := <-s.queue:
			text := fmt.Sprintf("report %s: %d", id, time.Now().Year())
			s.mu.Lock()
			s.ready[id] = text
			s.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

func (s *reports) wait(id string) string {
	for {
		s.mu.Lock()
		text, ok := s.ready[id]
		delete(s.ready, id)
		s.mu.Unlock()
		if ok {
			return text
		}
		time.Sleep(25 * time.Millisecond) // planted
	}
}

func main() {
	defer profiler.Start().Stop()
	s := &reports{ready: map[string]string{}, queue: make(chan string, 100)}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go s.work(ctx)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /report/{id}", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		s.queue <- id
		fmt.Fprintln(w, s.wait(id))
	})
	run.Serve(mux, "/report/*", 6, 5*time.Millisecond)
}
