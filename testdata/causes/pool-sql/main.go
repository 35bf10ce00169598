// A shop that pays within a transaction, on a database with two connections.
package main

import (
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

type shop struct {
	db       *sql.DB
	payments string
}

func (s *shop) checkOut(w http.ResponseWriter, r *http.Request) {
	tx, err := s.db.BeginTx(r.Context(), nil) // planted
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer tx.Rollback()
	var price int
	if err := tx.QueryRow("select price from products where name = ?", r.PathValue("product")).Scan(&price); err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	resp, err := http.Get(s.payments)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	fmt.Fprintln(w, "paid", price)
}

func main() {
	defer profiler.Start().Stop()
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", filepath.Join(dir, "shop.db"))
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(2) // planted
	if _, err := db.Exec("create table products (name text primary key, price int); insert into products values ('tea', 450)"); err != nil {
		log.Fatal(err)
	}
	s := &shop{db: db, payments: run.Beside("http", "5ms", "10")}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /check-out/{product}", s.checkOut)
	run.Serve(mux, "/check-out/tea", 10, 3*time.Millisecond)
}
