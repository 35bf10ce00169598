// Money goes from one account to another. Both are locked, the first one first, so sooner or later two wait for each
// other, and then all others for these.
package main

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type account struct {
	mu    sync.Mutex
	money int
}

type bank struct{ accounts [5]account }

func (b *bank) transfer(from, to, money int) {
	if from == to {
		return
	}
	b.accounts[from].mu.Lock()
	defer b.accounts[from].mu.Unlock()
	b.check(from)
	b.accounts[to].mu.Lock() // planted
	defer b.accounts[to].mu.Unlock()
	b.accounts[from].money -= money
	b.accounts[to].money += money
}

// check asks whether there is enough money.
func (b *bank) check(account int) { time.Sleep(time.Millisecond) }

func main() {
	defer profiler.Start().Stop()
	b := &bank{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /transfer/{n}", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.PathValue("n"))
		b.transfer(n%5, n*7/3%5, n)
		fmt.Fprintln(w, "done")
	})
	run.Serve(mux, "/transfer/*", 8, 10*time.Millisecond)
}
