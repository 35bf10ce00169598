// A gateway that forwards requests. Its transport allows two connections to a host, and all go to the same one.
package main

import (
	"io"
	"net/http"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type gateway struct {
	client  *http.Client
	backend string
}

func (g *gateway) forward(w http.ResponseWriter, r *http.Request) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, g.backend+r.URL.Path, nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	resp, err := g.client.Do(req) // planted
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	io.Copy(w, resp.Body)
}

func main() {
	defer profiler.Start().Stop()
	g := &gateway{
		client:  &http.Client{Transport: &http.Transport{MaxConnsPerHost: 2}}, // planted
		backend: run.Beside("http", "5ms", "2000"),
	}
	run.Serve(http.HandlerFunc(g.forward), "/users/*", 12, 3*time.Millisecond)
}
