// Counters of visits in a SQLite file. Each visit is a transaction, which asks where the visitor comes from before it is stored.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
	_ "modernc.org/sqlite"
)

type visits struct {
	db        *sql.DB
	countries string
}

func (v *visits) count(w http.ResponseWriter, r *http.Request) {
	if err := v.store(r.Context(), r.PathValue("page")); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "counted")
}

// store is a transaction that writes.
func (v *visits) store(ctx context.Context, page string) error {
	tx, err := v.db.BeginTx(ctx, nil) // planted
	if err != nil {
		return err
	}
	defer tx.Rollback()
	resp, err := http.Get(v.countries)
	if err != nil {
		return err
	}
	country, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return err
	}
	if _, err := tx.Exec("insert into visits values (?, ?)", page, string(country)); err != nil {
		return err
	}
	return tx.Commit()
}

func main() {
	defer profiler.Start().Stop()
	dir, err := os.MkdirTemp("", "visits")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "visits.db")
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.Exec("create table visits (page text, country text)"); err != nil {
		log.Fatal(err)
	}
	v := &visits{db: db, countries: run.Beside("http", "5ms", "10")}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /visit/{page}", v.count)
	run.Serve(mux, "/visit/home", 8, 3*time.Millisecond)
}
