// A job that copies users from one service to another, in a group whose limit somebody has set to one to find a fault.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"

	"causes/run"

	"github.com/gotach/profiler"
	"golang.org/x/sync/errgroup"
)

type migration struct{ from, to string }

func (m *migration) page(ctx context.Context, number int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(1) // planted
	for i := range 50 {
		group.Go(func() error { return m.copy(ctx, number*50+i) }) // planted
	}
	return group.Wait()
}

func (m *migration) copy(ctx context.Context, user int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/user/%d", m.from, user), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	profile, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	sent, err := http.Post(m.to, "text/plain", strings.NewReader(string(profile[:10])))
	if err != nil {
		return err
	}
	defer sent.Body.Close()
	_, err = io.Copy(io.Discard, sent.Body)
	return err
}

func main() {
	defer profiler.Start().Stop()
	ctx := run.Context()
	m := &migration{run.Beside("http", "4ms", "500"), run.Beside("http", "2ms", "2")}
	for n := 0; ctx.Err() == nil; n++ {
		if err := m.page(ctx, n); err != nil && ctx.Err() == nil {
			log.Fatal(err)
		}
	}
}
