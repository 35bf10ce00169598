// The first request for a place loads all of them, and the others wait for that. Later ones find them.
package main

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type places struct {
	mu     sync.Mutex
	client *http.Client
	url    string
	known  []byte
}

func (p *places) load() ([]byte, error) {
	resp, err := p.client.Get(p.url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

func (p *places) find(n int) (place byte, err error) {
	p.mu.Lock() // planted
	defer p.mu.Unlock()
	if p.known == nil {
		p.known, err = p.load()
	}
	if n < len(p.known) {
		place = p.known[n]
	}
	return place, err
}

func main() {
	defer profiler.Start().Stop()
	p := &places{client: &http.Client{}, url: run.Beside("http", "1200ms", "2000")}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /place/{n}", func(w http.ResponseWriter, r *http.Request) {
		place, err := p.find(len(r.PathValue("n")))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, place)
	})
	run.Serve(mux, "/place/*", 6, 10*time.Millisecond)
}
