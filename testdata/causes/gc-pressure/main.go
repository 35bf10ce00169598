// A server that decodes orders into maps, in a process whose GC percent somebody has set to save memory.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type catalogue struct{ products map[string]*product }

type product struct {
	name  string
	tags  []string
	stock map[string]int
}

func (c *catalogue) load(n int) {
	for i := range n {
		name := fmt.Sprintf("product-%d", i)
		c.products[name] = &product{name, []string{name, "new"}, map[string]int{"berlin": i, "lyon": i / 2}}
	}
}

func (c *catalogue) order(w http.ResponseWriter, r *http.Request) {
	text := `{"id":"` + r.PathValue("id") + `","lines":[` + strings.Repeat(`{"product":"product-7","n":[1,2,3],"note":{"gift":true}},`, 60) + `{}]}`
	var order map[string]any
	if err := json.Unmarshal([]byte(text), &order); err != nil { // planted
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintln(w, len(order["lines"].([]any)), c.products["product-7"].stock)
}

func main() {
	debug.SetGCPercent(3) // planted
	defer profiler.Start().Stop()
	c := &catalogue{products: map[string]*product{}}
	c.load(60_000)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /order/{id}", c.order)
	run.Serve(mux, "/order/*", 3, time.Millisecond)
}
