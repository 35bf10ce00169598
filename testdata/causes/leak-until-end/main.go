// Each request for a price starts a goroutine that takes it out of the cache when the context ends. It is that of the
// program, so they end together, when it stops.
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

type prices struct {
	mu    sync.Mutex
	known map[string]int
}

func (p *prices) price(ctx context.Context, article string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	price, ok := p.known[article]
	if !ok {
		price = 10 * len(article)
		p.known[article] = price
		go p.forget(ctx, article)
	}
	return price
}

func (p *prices) forget(ctx context.Context, article string) {
	<-ctx.Done() // planted
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, article)
}

func (p *prices) follow(changes chan string) {
	for article := range changes {
		p.mu.Lock()
		delete(p.known, article)
		p.mu.Unlock()
	}
}

func main() {
	defer profiler.Start().Stop()
	ctx, stop := context.WithCancel(context.Background())
	p := &prices{known: map[string]int{}}
	for range 200 { // suppliers, of which none changes a price today
		go p.follow(make(chan string))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /price/{article}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, p.price(ctx, r.PathValue("article")))
	})
	run.Serve(mux, "/price/*", 4, 10*time.Millisecond)
	stop()
	time.Sleep(50 * time.Millisecond) // what else has to end
}
