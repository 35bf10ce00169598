// Prices come from an exchange that takes its time; equal questions share one call (singleflight).
package main

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
	"golang.org/x/sync/singleflight"
)

type prices struct {
	group    singleflight.Group
	exchange string
}

func (p *prices) fetch(symbol string) (string, error) {
	r, err := http.Get(p.exchange + "/?symbol=" + symbol) // planted
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return fmt.Sprint(symbol, " ", len(b)), err
}

func (p *prices) price(w http.ResponseWriter, r *http.Request) {
	symbol := r.PathValue("symbol")
	v, err, _ := p.group.Do(symbol, func() (any, error) { return p.fetch(symbol) })
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	fmt.Fprintln(w, v)
}

func main() {
	defer profiler.Start().Stop()
	p := &prices{exchange: run.Beside("http", "60ms", "800")}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /price/{symbol}", p.price)
	run.Serve(mux, "/price/GO", 12, 10*time.Millisecond)
}
