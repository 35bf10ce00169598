// A server that is asked for its health twice a second, and for nothing else.
package main

import (
	"database/sql"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
	_ "modernc.org/sqlite"
)

func main() {
	defer profiler.Start().Stop()
	dir, err := os.MkdirTemp("", "idle")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", filepath.Join(dir, "app.db"))
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for range time.Tick(time.Second) {
			if err := db.Ping(); err != nil {
				log.Print(err)
			}
		}
	}()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "ok") })
	run.Serve(mux, "/healthz", 1, 500*time.Millisecond)
}
