//go:build !small

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

const caddyConfig = `{"admin":{"disabled":true},"apps":{"http":{"http_port":28080,"servers":{"s":{"listen":["127.0.0.1:28080"],
"automatic_https":{"disable":true},"routes":[
{"match":[{"path":["/proxy"]}],"handle":[{"handler":"reverse_proxy","upstreams":[{"dial":"%s"}]}]},
{"handle":[{"handler":"templates","file_root":"%s"},{"handler":"file_server","root":"%s"}]}]}}}}}`

func init() {
	loads["caddy"] = caddyServer
	loads["pool"] = func(stop <-chan struct{}, folder string) error { return caddyPool(stop, folder, 4) }
	loads["pool-bigger"] = func(stop <-chan struct{}, folder string) error { return caddyPool(stop, folder, 64) }
}

const poolConfig = `{"admin":{"disabled":true},"apps":{"http":{"http_port":28081,"servers":{"s":{"listen":["127.0.0.1:28081"],
"automatic_https":{"disable":true},"routes":[{"handle":[{"handler":"reverse_proxy","transport":{"protocol":"http","max_conns_per_host":%d},
"upstreams":[{"dial":"%s"}]}]}]}}}}}`

// caddyPool is a proxy that has at most so many connections to what is behind it, which takes 8 ms
// for each request.
func caddyPool(stop <-chan struct{}, folder string, connections int) error {
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(8 * time.Millisecond)
		io.WriteString(w, "done")
	}))
	os.Setenv("HOME", folder)
	if err := caddy.Load(fmt.Appendf(nil, poolConfig, connections, behind.Listener.Addr()), true); err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	for range 32 {
		go until(stop, func() {
			r, err := client.Get("http://127.0.0.1:28081/")
			if err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
		})
	}
	return nil
}

// caddyServer is a proxy and renders templates.
func caddyServer(stop <-chan struct{}, folder string) error {
	page := strings.Repeat(`<p>{{.Req.Method}} {{.Req.URL.Path | upper}} {{now | date "2006-01-02"}}</p>`+"\n", 20)
	if err := os.WriteFile(filepath.Join(folder, "page.html"), []byte(page), 0o600); err != nil {
		return err
	}
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		timed("http", func() { io.WriteString(w, page) })
	}))
	os.Setenv("HOME", folder)
	if err := caddy.Load(fmt.Appendf(nil, caddyConfig, behind.Listener.Addr(), folder, folder), true); err != nil {
		return err
	}
	for i := range 8 {
		path := []string{"proxy", "proxy", "proxy", "page.html"}[i%4]
		go until(stop, func() {
			timed("http", get(http.DefaultTransport, "127.0.0.1:28080/"+path))
		})
	}
	return nil
}
