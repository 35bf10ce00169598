package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
)

var handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Query().Get("n"))
	check(err)
	handle(n)
	_, _ = io.WriteString(w, "done")
})

// get returns a client that asks an HTTP server.
func get(c *http.Client, url string) client {
	return func(ctx context.Context, n int) error {
		req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprint(url, "/?n=", n), nil)
		if err != nil {
			return err
		}
		r, err := c.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r.Body)
		if closing := r.Body.Close(); err == nil {
			err = closing
		}
		return err
	}
}

func startHTTP1() []client {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go func() { panic((&http.Server{Handler: handler}).Serve(l)) }()
	tls := httptest.NewTLSServer(handler)
	tls.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = 20
	plain := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 20}}
	return []client{get(plain, "http://"+l.Addr().String()), get(tls.Client(), tls.URL)}
}

func startHTTP2() []client {
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = true
	s.StartTLS()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go func() { panic((&http.Server{Handler: handler, Protocols: &protocols}).Serve(l)) }()
	plain := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	return []client{get(s.Client(), s.URL), get(plain, "http://"+l.Addr().String())}
}
