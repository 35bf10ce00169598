// Requests are let through by a ticker.
package main

import (
	"fmt"
	"net/http"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type gate struct{ ticks *time.Ticker }

func (g *gate) pass(w http.ResponseWriter, r *http.Request) {
	<-g.ticks.C // planted
	fmt.Fprintln(w, "passed")
}

func main() {
	defer profiler.Start().Stop()
	g := &gate{time.NewTicker(20 * time.Millisecond)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /g/{x}", g.pass)
	run.Serve(mux, "/g/*", 6, 5*time.Millisecond)
}
