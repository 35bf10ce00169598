// A webhook is called with a new client each time, so each call begins with a handshake.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type hooks struct{ url string }

func (h *hooks) call(ctx context.Context, event string) error {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // its certificate is its own
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, strings.NewReader(event))
	if err != nil {
		return err
	}
	resp, err := client.Do(req) // planted
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func main() {
	defer profiler.Start().Stop()
	h := &hooks{run.Beside("https", "15ms", "20")}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ship/{parcel}", func(w http.ResponseWriter, r *http.Request) {
		if err := h.call(r.Context(), "shipped "+r.PathValue("parcel")); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, "shipped")
	})
	run.Serve(mux, "/ship/*", 3, 10*time.Millisecond)
}
