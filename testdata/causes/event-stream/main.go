// Clients follow a stream of events for as long as they like.
package main

import (
	"fmt"
	"net/http"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

func main() {
	defer profiler.Start().Stop()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /events/{e}", func(w http.ResponseWriter, r *http.Request) {
		for i := 0; ; i++ {
			select {
			case <-time.After(40 * time.Millisecond):
				fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	run.Serve(mux, "/events/*", 12, 5*time.Millisecond)
}
