// Invoices are printed by a worker that looks into its queue at each tick. Requests wait until theirs is printed.
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

type invoice struct {
	customer string
	printed  chan string
}

type printer struct {
	mu    sync.Mutex
	queue []invoice
}

func (p *printer) put(customer string) string {
	in := invoice{customer, make(chan string, 1)}
	p.mu.Lock()
	p.queue = append(p.queue, in)
	p.mu.Unlock()
	return <-in.printed // planted
}

func (p *printer) work(ctx context.Context) {
	tick := time.NewTicker(60 * time.Millisecond)
	defer tick.Stop()
	for {
		select { // planted
		case <-tick.C:
			p.mu.Lock()
			todo := p.queue
			p.queue = nil
			p.mu.Unlock()
			for _, in := range todo {
				in.printed <- "invoice of " + in.customer
			}
		case <-ctx.Done():
			return
		}
	}
}

func main() {
	defer profiler.Start().Stop()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	p := &printer{}
	go p.work(ctx)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /invoice/{c}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, p.put(r.PathValue("c"))) })
	run.Serve(mux, "/invoice/*", 6, 5*time.Millisecond)
}
