// Mails are sent by six workers. A mail that is refused is sent again after a while.
package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
	"golang.org/x/sync/errgroup"
)

var errRefused = errors.New("refused")

type mailer struct{ url string }

func (m *mailer) try() error {
	resp, err := http.Get(m.url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != 200 {
		return errRefused
	}
	return nil
}

func (m *mailer) send(ctx context.Context) error {
	for pause := 30 * time.Millisecond; ; pause *= 2 {
		if err := m.try(); err == nil {
			return nil
		}
		select {
		case <-time.After(pause): // planted
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func main() {
	defer profiler.Start().Stop()
	ctx := run.Context()
	m := &mailer{run.Beside("http", "2ms", "30", "2")}
	var g errgroup.Group
	for range 6 {
		g.Go(func() error {
			for ctx.Err() == nil {
				m.send(ctx)
			}
			return nil
		})
	}
	g.Wait()
}
