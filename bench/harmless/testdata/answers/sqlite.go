package main

import (
	"database/sql"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite"
)

// busyWriter opens a SQLite database. Four goroutines save orders, each in about a millisecond. An import writes a
// stock list, and calls another service for each of its pages while its transaction is open. SQLite has one
// writer at a time: the orders wait.
func busyWriter(dir string) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+
		"?_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)&_txlock=immediate")
	check(err)
	_, err = db.Exec("create table orders (id integer primary key, article int); create table stock (page int, n int)")
	check(err)

	for i := range 4 {
		go func() {
			for range time.Tick(20 * time.Millisecond) {
				saveOrder(db, i)
			}
		}()
	}
	go func() {
		for range time.Tick(3 * time.Second) {
			importStock(db)
		}
	}()
}

func saveOrder(db *sql.DB, article int) {
	_, err := db.Exec("insert into orders (article) values (?)", article)
	check(err)
}

// importStock holds SQLite's write lock from begin to commit.
func importStock(db *sql.DB) {
	tx, err := db.Begin()
	check(err)
	for page := range 3 {
		_, err := tx.Exec("insert into stock values (?, ?)", page, fetchPage(page))
		check(err)
	}
	check(tx.Commit())
}

// fetchPage stands for a call of a slow service.
func fetchPage(page int) int {
	time.Sleep(70 * time.Millisecond)
	return page
}
