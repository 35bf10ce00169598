package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
)

// slowDriver is a driver of database/sql whose queries sleep.
type slowDriver struct{ name string }

func (d slowDriver) Connect(context.Context) (driver.Conn, error) { return slowConn{d}, nil }
func (d slowDriver) Driver() driver.Driver                        { return nil }

type slowConn struct{ d slowDriver }

func (slowConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not supported") }
func (slowConn) Close() error                        { return nil }
func (c slowConn) Begin() (driver.Tx, error)         { label("is", c.d.name); return slowTx{}, nil }
func (c slowConn) QueryContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Rows, error) {
	label("is", c.d.name)
	pause(int(args[0].Value.(int64)), int(args[1].Value.(int64)))
	return &slowRows{}, nil
}

type slowTx struct{}

func (slowTx) Commit() error   { pause(2, 1); return nil }
func (slowTx) Rollback() error { return nil }

type slowRows struct{ n int }

func (*slowRows) Columns() []string { return []string{"n"} }
func (*slowRows) Close() error      { return nil }
func (r *slowRows) Next(to []driver.Value) error {
	if r.n++; r.n > 2 {
		return io.EOF
	}
	to[0] = int64(r.n)
	return nil
}

// A shop has a pool of two connections, and one that nobody waits for.
type shop struct{ small, big *sql.DB }

func sqlPool(stop <-chan struct{}) {
	s := &shop{sql.OpenDB(slowDriver{"small"}), sql.OpenDB(slowDriver{"big"})}
	s.small.SetMaxOpenConns(2)
	for i := range 3 {
		start(func() { until(stop, func(n int) { s.ask(5+i, n) }) })
		start(func() { until(stop, func(n int) { s.askBig(5+i, n) }) })
	}
	start(func() { until(stop, s.export) })
	start(func() { until(stop, s.transfer) })
}

func (s *shop) ask(ms, n int) {
	askSmall(s, ms, n)
	pause(3, n)
}

func askSmall(s *shop, ms, n int) {
	var got int
	label("until", "small")
	check(s.small.QueryRow("", ms, n).Scan(&got))
	label("until", "")
	label("is", "")
}

func (s *shop) askBig(ms, n int) {
	var got int
	check(s.big.QueryRow("", ms, n).Scan(&got))
	label("is", "")
}

// export holds a connection while it does something else.
func (s *shop) export(n int) {
	label("until", "small")
	rows, err := s.small.Query("", 1, n)
	label("until", "")
	check(err)
	for rows.Next() {
		writeOut(n)
	}
	check(rows.Close())
	label("is", "")
	pause(4, n)
}

func writeOut(n int) { pause(7, n) }

func (s *shop) transfer(n int) {
	label("until", "small")
	tx, err := s.small.Begin()
	label("until", "")
	check(err)
	defer label("is", "")
	compute(n)
	check(tx.Commit())
}

func compute(n int) { pause(9, n) }

// slowServer returns the URL of a server whose answers take some time.
func slowServer() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	n := 0
	start(func() {
		check((&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n++
			pause(4, n)
			_, _ = io.WriteString(w, "done")
			w.(http.Flusher).Flush()
			pause(1, n)
			_, _ = io.WriteString(w, "done")
		})}).Serve(l))
	})
	return "http://" + l.Addr().String()
}

// transport is a net/http client with two connections for five goroutines.
func transport(stop <-chan struct{}) {
	url := slowServer()
	f := &fetcher{&http.Client{Transport: &http.Transport{MaxConnsPerHost: 2, MaxIdleConnsPerHost: 2}}, url}
	for i := range 5 {
		start(func() { until(stop, func(n int) { f.fetch(n + i) }) })
	}
	// A pool of its own, for which nobody waits.
	other := &http.Client{Transport: &http.Transport{}}
	for range 2 {
		start(func() {
			until(stop, func(int) {
				resp, err := other.Get(url)
				check(err)
				check(resp.Body.Close())
			})
		})
	}
}

type fetcher struct {
	c   *http.Client
	url string
}

func (f *fetcher) fetch(n int) {
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		label("is", "conn")
		label("until", "name:a response of an HTTP server")
	}}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), "GET", f.url, nil)
	check(err)
	label("until", "conn")
	resp, err := f.c.Do(req)
	label("until", "")
	check(err)
	store(n)
	_, err = io.Copy(io.Discard, resp.Body)
	check(err)
	check(resp.Body.Close())
	label("is", "")
	pause(1, n)
}

func store(n int) { pause(6, n) }

// handlers are those of an HTTP server which wait for a small pool and for a worker. net/http starts a goroutine for each request, which
// ends because the handler does.
func handlers(stop <-chan struct{}) {
	small := &shop{small: sql.OpenDB(slowDriver{"small"})}
	small.small.SetMaxOpenConns(2)
	questions := make(chan question)
	for range 2 {
		start(func() { answer(questions) })
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	n := 0
	start(func() {
		check((&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n++
			askSmall(small, 6, n)
			ask(questions, 9, n)
			_, _ = io.WriteString(w, "done")
		})}).Serve(l))
	})
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10}}
	for range 6 {
		start(func() {
			until(stop, func(int) {
				resp, err := c.Get("http://" + l.Addr().String())
				check(err)
				_, err = io.Copy(io.Discard, resp.Body)
				check(err)
				check(resp.Body.Close())
			})
		})
	}
}
