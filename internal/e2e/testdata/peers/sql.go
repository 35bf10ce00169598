//go:build !std

package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	wire "github.com/jeroenrinzema/psql-wire"
	"github.com/lib/pq/oid"
)

// servePostgres answers "select N" as PostgreSQL would, after some time.
func servePostgres() string {
	columns := wire.Columns{{Table: 0, Name: "n", Oid: uint32(oid.T_text), Width: 256}}
	s, err := wire.NewServer(func(_ context.Context, query wire.Query) (wire.PreparedStatements, error) {
		n := 0
		_, _ = fmt.Sscanf(query.Query, "select %d", &n)
		return wire.Prepared(wire.NewStatement(func(_ context.Context, w wire.DataWriter, _ []wire.Parameter) error {
			time.Sleep(time.Duration(2+n%7) * time.Millisecond)
			if err := w.Row([]any{strconv.Itoa(n)}); err != nil {
				return err
			}
			return w.Complete("SELECT 1")
		}, wire.WithColumns(columns))), nil
	}, wire.Logger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	check(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go func() { check(s.Serve(l)) }()
	return "postgres://u@" + l.Addr().String() + "/db?sslmode=disable"
}

// startSQL uses the driver pgx through database/sql, with at most three connections so that requests wait for
// them too, and pgx's own pool. PEERS_POSTGRES is the URL of a server to use, if it is set.
func startSQL() []client {
	dsn := os.Getenv("PEERS_POSTGRES")
	if dsn == "" {
		dsn = other("serve-postgres")
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
