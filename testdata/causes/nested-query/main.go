// Albums with the number of their tracks, counted while the albums are being read. The database has two connections.
package main

import (
	"context"
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

type music struct{ db *sql.DB }

func (m *music) albums(ctx context.Context, artist string) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
	defer cancel()
	rows, err := m.db.QueryContext(ctx, "select id from albums where artist = ?", artist)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			return 0, err
		}
		tracks, err := m.tracks(ctx, id)
		if err != nil {
			return 0, err
		}
		n += tracks
	}
	return n, rows.Err()
}

func (m *music) tracks(ctx context.Context, album int) (n int, err error) {
	err = m.db.QueryRowContext(ctx, "select count(*) from tracks where album = ?", album).Scan(&n) // planted
	return n, err
}

func main() {
	defer profiler.Start().Stop()
	dir, _ := os.MkdirTemp("", "music")
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", filepath.Join(dir, "music.db"))
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(2)
	if _, err := db.Exec("create table albums (id int, artist text); create table tracks (album int); insert into albums values (1,'x'),(2,'x'),(3,'x'),(4,'x'); insert into tracks values (1),(1),(2),(3)"); err != nil {
		log.Fatal(err)
	}
	m := &music{db}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /albums/{artist}", func(w http.ResponseWriter, r *http.Request) {
		n, err := m.albums(r.Context(), r.PathValue("artist"))
		if err != nil {
			http.Error(w, err.Error(), 503)
			return
		}
		fmt.Fprintln(w, n)
	})
	run.Serve(mux, "/albums/x", 6, 4*time.Millisecond)
}
