// A ledger that syncs its file while it holds the lock that every request needs.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"sync"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type ledger struct {
	mu      sync.Mutex
	file    *os.File
	balance map[string]int
}

func (l *ledger) book(account string, cents int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.balance[account] += cents
	if err := json.NewEncoder(l.file).Encode(map[string]int{account: cents}); err != nil {
		return err
	}
	return l.file.Sync() // planted
}

func (l *ledger) read(account string) int {
	l.mu.Lock() // planted
	defer l.mu.Unlock()
	return l.balance[account]
}

func main() {
	defer profiler.Start().Stop()
	f, err := os.CreateTemp(".", "ledger")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(f.Name())
	l := &ledger{file: f, balance: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /book/{account}", func(w http.ResponseWriter, r *http.Request) {
		account := r.PathValue("account")
		if err := l.book(account, 100); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, l.read(account))
	})
	run.Serve(mux, "/book/*", 8, 2*time.Millisecond)
}
