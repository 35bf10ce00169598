// A table of routes. Exports read all of it under the read lock, so a change waits for them, and who only looks up a
// route waits for the change.
package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type routes struct {
	mu   sync.RWMutex
	next map[string]string
}

func (t *routes) lookUp(host string) string {
	t.mu.RLock() // planted
	defer t.mu.RUnlock()
	return t.next[host]
}

func (t *routes) change(host, next string) {
	t.mu.Lock() // planted
	t.next[host] = next
	t.mu.Unlock()
}

// export writes the table to a client, which takes its time.
func (t *routes) export(w io.Writer) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for host, next := range t.next {
		if _, err := fmt.Fprintln(w, host, next); err != nil { // planted
			return err
		}
	}
	return nil
}

// modem is a slow line.
type modem struct{}

func (modem) Write(b []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return len(b), nil
}

func main() {
	defer profiler.Start().Stop()
	t := &routes{next: map[string]string{}}
	for i := range 60 {
		t.change("host"+strconv.Itoa(i), "gateway")
	}
	for range 2 {
		go func() {
			for range time.Tick(100 * time.Millisecond) {
				t.export(modem{})
			}
		}()
	}
	go func() {
		for range time.Tick(30 * time.Millisecond) {
			t.change("host7", "other")
		}
	}()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /route/{host}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, t.lookUp(r.PathValue("host"))) })
	run.Serve(mux, "/route/host7", 6, 4*time.Millisecond)
}
