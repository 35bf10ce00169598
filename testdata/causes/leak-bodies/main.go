// A poller of feeds that looks at the status of each answer and forgets its body, so no connection is used again.
package main

import (
	"fmt"
	"log"
	"net/http"
	"sync"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type feeds struct {
	client *http.Client
	mu     sync.Mutex
	seen   map[string]time.Time
}

func (f *feeds) poll(url string) error {
	resp, err := f.client.Get(url) // planted
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[url] = time.Now()
	return nil
}

func main() {
	defer profiler.Start().Stop()
	ctx := run.Context()
	site := run.Beside("http", "3ms", "100000")
	f := &feeds{client: &http.Client{Timeout: time.Minute}, seen: map[string]time.Time{}}
	tick := time.NewTicker(40 * time.Millisecond)
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := f.poll(fmt.Sprintf("%s/feed/%d", site, n%10)); err != nil {
				log.Print(err)
			}
		}
	}
}
