//go:build !std

package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
)

// startSQL uses the driver pgx through database/sql, with at most three connections so that requests wait for
// them too, and pgx's own pool. PEERS_POSTGRES is the URL of a PostgreSQL.
func startSQL() []client {
	dsn := os.Getenv("PEERS_POSTGRES")
	if dsn == "" {
		panic("PEERS_POSTGRES is not set")
	}
	query := func(n int) string { return fmt.Sprintf("select %d from pg_sleep(%g)", n, 0.002+0.001*float64(n%7)) }
	db, err := sql.Open("pgx", dsn)
	check(err)
	db.SetMaxOpenConns(3)
	db.SetMaxIdleConns(3)
	db.SetConnMaxLifetime(time.Hour)
	pool, err := pgxpool.New(context.Background(), dsn)
	check(err)
	return []client{func(ctx context.Context, n int) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var got string
		return db.QueryRowContext(ctx, query(n)).Scan(&got)
	}, func(ctx context.Context, n int) error {
		var got string
		return pool.QueryRow(ctx, query(n)).Scan(&got)
	}}
}
