//go:build !std

package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"

	"golang.org/x/net/http2"
)

// startXHTTP2 uses golang.org/x/net/http2, without net/http's server and transport.
func startXHTTP2() []client {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go func() {
		var s http2.Server
		for {
			c, err := l.Accept()
			check(err)
			go s.ServeConn(c, &http2.ServeConnOpts{Handler: handler})
		}
	}()
	t := &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}}
	return []client{get(&http.Client{Transport: t}, "http://"+l.Addr().String())}
}
