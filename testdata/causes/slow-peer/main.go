// A page with the weather, which another service says. That takes 50 ms.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type weather struct {
	client *http.Client
	url    string
}

func (s *weather) forecast(ctx context.Context, city string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/forecast/"+city, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req) // planted
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

func main() {
	defer profiler.Start().Stop()
	s := &weather{
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 50}, Timeout: time.Second},
		url:    run.Beside("http", "50ms", "300"),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /weather/{city}", func(w http.ResponseWriter, r *http.Request) {
		text, err := s.forecast(r.Context(), r.PathValue("city"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintf(w, "<p>%d</p>", len(text))
	})
	run.Serve(mux, "/weather/bern", 8, 10*time.Millisecond)
}
