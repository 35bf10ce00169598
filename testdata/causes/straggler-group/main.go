// A nightly invoice run. The customers are divided among workers by their number, and one worker has the largest one.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"causes/run"

	"github.com/gotach/profiler"
)

type billing struct {
	client  *http.Client
	service string
	orders  map[int]int // by customer
}

func (b *billing) night(ctx context.Context) {
	var group sync.WaitGroup
	for shard := range 6 {
		group.Go(func() { b.invoices(ctx, shard) })
	}
	group.Wait() // planted
}

func (b *billing) invoices(ctx context.Context, shard int) {
	for customer := shard; customer < len(b.orders) && ctx.Err() == nil; customer += 6 {
		for order := range b.orders[customer] {
			b.invoice(ctx, customer, order) // planted
		}
	}
}

func (b *billing) invoice(ctx context.Context, customer, order int) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/%d/%d", b.service, customer, order), nil)
	if err != nil {
		return
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}

func main() {
	defer profiler.Start().Stop()
	ctx := run.Context()
	b := &billing{
		client:  &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10}},
		service: run.Beside("http", "2ms", "900"),
		orders:  map[int]int{},
	}
	for customer := range 30 {
		b.orders[customer] = 2
	}
	b.orders[9] = 80
	for ctx.Err() == nil {
		b.night(ctx)
	}
}
