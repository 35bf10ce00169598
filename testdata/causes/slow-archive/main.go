// A price is sent to the archive while a lock is held, and the archive takes its time.
package main

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type prices struct {
	mu   sync.Mutex
	last string
	news chan string
}

func (p *prices) set(price string) {
	p.mu.Lock() // planted
	defer p.mu.Unlock()
	p.last = price
	p.news <- price
}

func (p *prices) archive(url string) {
	for price := range p.news {
		if resp, err := http.Get(url + "/" + price); err == nil {
			resp.Body.Close()
		}
	}
}

func main() {
	defer profiler.Start().Stop()
	p := &prices{news: make(chan string, 4)}
	go p.archive(run.Beside("http", "8ms", "20"))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /set/{price}", func(w http.ResponseWriter, r *http.Request) {
		p.set(r.PathValue("price"))
		fmt.Fprintln(w, "set")
	})
	run.Serve(mux, "/set/*", 6, 5*time.Millisecond)
}
