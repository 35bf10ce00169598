// Thumbnails are made by at most two requests at a time, which was right when the pictures lay on this machine.
package main

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type thumbnails struct {
	store string
	slots chan struct{}
}

func (t *thumbnails) make(name string) (int64, error) {
	t.slots <- struct{}{} // planted
	defer func() { <-t.slots }()
	resp, err := http.Get(t.store + name)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return io.Copy(io.Discard, resp.Body)
}

func main() {
	defer profiler.Start().Stop()
	t := &thumbnails{store: run.Beside("http", "8ms", "30000"), slots: make(chan struct{}, 2)} // planted
	mux := http.NewServeMux()
	mux.HandleFunc("GET /thumbnail/{name}", func(w http.ResponseWriter, r *http.Request) {
		n, err := t.make("/" + r.PathValue("name"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, n)
	})
	run.Serve(mux, "/thumbnail/cat*", 10, 3*time.Millisecond)
}
