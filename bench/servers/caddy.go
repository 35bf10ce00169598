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

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

const caddyConfig = `{"admin":{"disabled":true},"apps":{"http":{"http_port":28080,"servers":{"s":{"listen":["127.0.0.1:28080"],
"automatic_https":{"disable":true},"routes":[
{"match":[{"path":["/proxy"]}],"handle":[{"handler":"reverse_proxy","upstreams":[{"dial":"%s"}]}]},
{"handle":[{"handler":"templates","file_root":"%s"},{"handler":"file_server","root":"%s"}]}]}}}}}`

func init() { loads["caddy"] = caddyServer }

// caddyServer is a proxy and renders templates.
func caddyServer(stop <-chan struct{}, folder string) error {
	page := strings.Repeat(`<p>{{.Req.Method}} {{.Req.URL.Path | upper}} {{now | date "2006-01-02"}}</p>`+"\n", 20)
	if err := os.WriteFile(filepath.Join(folder, "page.html"), []byte(page), 0o600); err != nil {
		return err
	}
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, page) }))
	os.Setenv("HOME", folder)
	if err := caddy.Load(fmt.Appendf(nil, caddyConfig, behind.Listener.Addr(), folder, folder), true); err != nil {
		return err
	}
	for i := range 8 {
		path := []string{"proxy", "proxy", "proxy", "page.html"}[i%4]
		go until(stop, func() {
			r, err := http.Get("http://127.0.0.1:28080/" + path)
			if err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
		})
	}
	return nil
}
