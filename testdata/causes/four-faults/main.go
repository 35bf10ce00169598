// A shop whose ledger is synced by each booking, with two database connections, a stock service that is far away, and watchers.
package main

import (
	"database/sql"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"causes/run"

	"github.com/gotach/profiler"
	_ "modernc.org/sqlite"
)

type shop struct {
	mu       sync.Mutex
	ledger   *os.File
	db       *sql.DB
	payments string
	stock    string
	watchers map[chan string]bool
	wmu      sync.Mutex
}

func (s *shop) book(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock() // planted
	fmt.Fprintln(s.ledger, r.URL.Path)
	s.ledger.Sync()
	s.mu.Unlock()
	fmt.Fprintln(w, "booked")
}

func (s *shop) checkOut(w http.ResponseWriter, r *http.Request) {
	tx, err := s.db.BeginTx(r.Context(), nil) // planted
	if err != nil {
		http.Error(w, err.Error(), 503)
		return
	}
	defer tx.Rollback()
	var price int
	tx.QueryRow("select price from products where name = ?", "tea").Scan(&price)
	resp, err := http.Get(s.payments)
	if err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	fmt.Fprintln(w, price)
}

func (s *shop) left(w http.ResponseWriter, r *http.Request) {
	resp, err := http.Get(s.stock) // planted
	if err != nil {
		http.Error(w, err.Error(), 502)
		return
	}
	io.Copy(w, resp.Body)
	resp.Body.Close()
}

func (s *shop) watch(w http.ResponseWriter, r *http.Request) {
	ch := make(chan string)
	s.wmu.Lock()
	s.watchers[ch] = true
	s.wmu.Unlock()
	go func() {
		for x := range ch { // planted
			fmt.Fprintln(io.Discard, x)
		}
	}()
	fmt.Fprintln(w, "watched")
}

func main() {
	defer profiler.Start().Stop()
	dir, _ := os.MkdirTemp(".", "four")
	defer os.RemoveAll(dir)
	f, err := os.Create(filepath.Join(dir, "ledger"))
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "shop.db"))
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(2)
	if _, err := db.Exec("create table products (name text primary key, price int); insert into products values ('tea', 450)"); err != nil {
		log.Fatal(err)
	}
	s := &shop{ledger: f, db: db, payments: run.Beside("http", "5ms", "10"), stock: run.Beside("http", "40ms", "10"), watchers: map[chan string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /book/{x}", s.book)
	mux.HandleFunc("GET /out/{x}", s.checkOut)
	mux.HandleFunc("GET /left/{x}", s.left)
	mux.HandleFunc("GET /watch/{x}", s.watch)
	ctx := run.Context()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go http.Serve(l, mux)
	base := "http://" + l.Addr().String()
	for _, x := range []struct {
		path string
		n    int
		rest string
	}{{"/book/*", 10, "3ms"}, {"/out/*", 10, "3ms"}, {"/left/*", 8, "5ms"}, {"/watch/*", 3, "20ms"}} {
		run.Beside("clients", base+x.path, strconv.Itoa(x.n), x.rest)
	}
	<-ctx.Done()
}
