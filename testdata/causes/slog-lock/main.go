// Requests are logged with log/slog. The log goes over a line that takes a few milliseconds for each record.
package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

// collector sends what is written to it to a server.
type collector struct {
	client *http.Client
	url    string
}

func (c *collector) Write(b []byte) (int, error) {
	resp, err := c.client.Post(c.url, "application/json", strings.NewReader(string(b))) // planted
	if err != nil {
		return 0, err
	}
	return len(b), resp.Body.Close()
}

type api struct{ log *slog.Logger }

func (a *api) user(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	a.log.Info("user", "id", id, "from", r.RemoteAddr) // planted
	fmt.Fprintln(w, "user", id)
}

func main() {
	defer profiler.Start().Stop()
	c := &collector{&http.Client{}, run.Beside("http", "3ms", "0")}
	a := &api{slog.New(slog.NewJSONHandler(c, nil))}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /user/{id}", a.user)
	run.Serve(mux, "/user/*", 8, 2*time.Millisecond)
}
