// A list of orders with the name of each article, which is asked for one by one.
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

type orders struct{ db *sql.DB }

func (o *orders) list(ctx context.Context, customer string) (names []string, err error) {
	for _, article := range o.articles(customer) {
		name, err := o.name(ctx, article)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

func (o *orders) articles(customer string) []int {
	ids := make([]int, 30)
	for i := range ids {
		ids[i] = len(customer)*1000 + i
	}
	return ids
}

func (o *orders) name(ctx context.Context, article int) (name string, err error) {
	err = o.db.QueryRowContext(ctx, "select name from articles where id = $1", article).Scan(&name) // planted
	return name, err
}

func main() {
	defer profiler.Start().Stop()
	db, err := sql.Open("pgx", postgres.Start(700*time.Microsecond))
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxIdleConns(20)
	o := &orders{db}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{customer}", func(w http.ResponseWriter, r *http.Request) {
		names, err := o.list(r.Context(), r.PathValue("customer"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, names)
	})
	run.Serve(mux, "/orders/smith", 4, 20*time.Millisecond)
}
