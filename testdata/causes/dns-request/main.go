// A client that keeps no connections, so the name of the service is looked up again for each request.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type rates struct {
	client *http.Client
	url    string
}

func (s *rates) get(ctx context.Context, currency string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/"+currency, nil)
	if err != nil {
		return 0, err
	}
	resp, err := s.client.Do(req) // planted
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return io.Copy(io.Discard, resp.Body)
}

func main() {
	defer profiler.Start().Stop()
	nameserver := run.Beside("dns", "15ms")
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", nameserver)
	}}
	dialer := &net.Dialer{Resolver: resolver}
	s := &rates{
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}}, // planted
		url:    strings.Replace(run.Beside("http", "1ms", "100"), "127.0.0.1", "rates.bank.example", 1),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /rate/{currency}", func(w http.ResponseWriter, r *http.Request) {
		n, err := s.get(r.Context(), r.PathValue("currency"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, n)
	})
	run.Serve(mux, "/rate/chf", 4, 5*time.Millisecond)
}
