// A list of best sellers, for which the database has no index.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"net/http"
	"time"

	"causes/run"
	"causes/run/postgres"

	"github.com/gotach/profiler"
	_ "github.com/jackc/pgx/v5/stdlib"
)

type books struct{ db *sql.DB }

func (b *books) bestSeller(ctx context.Context, subject string) (name string, err error) {
	const query = "select name from books join sales using (id) where subject = $1 order by sum(sold) desc limit 1"
	err = b.db.QueryRowContext(ctx, query, subject).Scan(&name) // planted
	return name, err
}

func main() {
	defer profiler.Start().Stop()
	db, err := sql.Open("pgx", postgres.Start(40*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxIdleConns(20)
	b := &books{db}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /best/{subject}", func(w http.ResponseWriter, r *http.Request) {
		name, err := b.bestSeller(r.Context(), r.PathValue("subject"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, name)
	})
	run.Serve(mux, "/best/cooking", 8, 10*time.Millisecond)
}
