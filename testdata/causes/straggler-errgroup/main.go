// A page made of six parts, all asked for at once. It is as slow as the reviews.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
	"golang.org/x/sync/errgroup"
)

type page struct {
	client *http.Client
	parts  []string // URLs
}

func (p *page) render(ctx context.Context) (string, error) {
	texts := make([]string, len(p.parts))
	group, ctx := errgroup.WithContext(ctx)
	for i, url := range p.parts {
		group.Go(func() (err error) {
			texts[i], err = p.part(ctx, url)
			return err
		})
	}
	if err := group.Wait(); err != nil { // planted
		return "", err
	}
	return strings.Join(texts, "\n"), nil
}

func (p *page) part(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := p.client.Do(req) // planted
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func main() {
	defer profiler.Start().Stop()
	p := &page{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 50}}}
	for _, delay := range []string{"2ms", "3ms", "4ms", "2ms", "3ms", "45ms"} {
		p.parts = append(p.parts, run.Beside("http", delay, "800"))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /product/{id}", func(w http.ResponseWriter, r *http.Request) {
		text, err := p.render(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, text)
	})
	run.Serve(mux, "/product/*", 3, 10*time.Millisecond)
}
