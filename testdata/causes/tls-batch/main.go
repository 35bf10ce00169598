// Reminders are sent from a list, with a new connection for each, so each begins with a handshake.
package main

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type reminders struct {
	client *http.Client
	url    string
}

func (r *reminders) send(ctx context.Context, customer string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, strings.NewReader(customer))
	if err != nil {
		return err
	}
	resp, err := r.client.Do(req) // planted
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	time.Sleep(2 * time.Millisecond) // what customers may be sent in a second has a limit
	return err
}

func main() {
	defer profiler.Start().Stop()
	r := &reminders{url: run.Beside("https", "15ms", "20"), client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // its certificate is its own
	}}}
	ctx := run.Context()
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for ctx.Err() == nil {
				if err := r.send(ctx, "customer"); err != nil && ctx.Err() == nil {
					panic(err)
				}
			}
		})
	}
	senders.Wait()
}
