// Stock of a warehouse. One goroutine owns it and does all that is asked, one request after the other.
package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type reservation struct {
	article string
	reply   chan string
}

type warehouse struct {
	requests chan reservation
	stock    map[string]int
}

func (h *warehouse) loop() {
	for r := range h.requests {
		h.stock[r.article]--
		r.reply <- h.receipt(r.article) // planted
	}
}

// receipt signs what was taken.
func (h *warehouse) receipt(article string) string {
	sum := sha256.Sum256([]byte(article))
	for range 8_000 {
		sum = sha256.Sum256(sum[:]) // planted
	}
	return fmt.Sprintf("%x", sum)
}

func (h *warehouse) reserve(article string) string {
	r := reservation{article, make(chan string, 1)}
	h.requests <- r  // planted
	return <-r.reply // planted
}

func main() {
	defer profiler.Start().Stop()
	h := &warehouse{requests: make(chan reservation), stock: map[string]int{}}
	go h.loop()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /reserve/{article}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, h.reserve(r.PathValue("article"))) })
	run.Serve(mux, "/reserve/bolt*", 10, 2*time.Millisecond)
}
