//go:build !small

package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"time"

	"github.com/VictoriaMetrics/VictoriaMetrics/app/vminsert"
	"github.com/VictoriaMetrics/VictoriaMetrics/app/vminsert/common"
	"github.com/VictoriaMetrics/VictoriaMetrics/app/vmselect"
	"github.com/VictoriaMetrics/VictoriaMetrics/app/vmselect/promql"
	"github.com/VictoriaMetrics/VictoriaMetrics/app/vmstorage"
)

func init() { loads["victoria"] = victoriaServer }

// victoriaServer is VictoriaMetrics, which is written to and asked.
func victoriaServer(stop <-chan struct{}, folder string) error {
	args := []string{"-storageDataPath=" + filepath.Join(folder, "victoria"), "-loggerLevel=ERROR"}
	if err := flag.CommandLine.Parse(args); err != nil {
		return err
	}
	const atOnce, queued = 16, 10 * time.Second
	vmstorage.Init(atOnce, queued, promql.ResetRollupResultCacheIfNeeded)
	vmselect.Init(atOnce, queued)
	common.StartIngestionRateLimiter(0)
	vminsert.Init()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		timed("http", func() {
			if !vminsert.RequestHandler(w, r) && !vmselect.RequestHandler(w, r) {
				http.NotFound(w, r)
			}
		})
	}))
	done := func(r *http.Response, err error) {
		if err == nil {
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
	}
	for range 4 {
		go until(stop, func() {
			var b bytes.Buffer
			for range 200 {
				n := rand.IntN(20_000)
				fmt.Fprintf(&b, "requests_total{host=\"host%d\",path=\"/%d\"} %d\n", n%100, n/100, n)
			}
			done(http.Post(server.URL+"/api/v1/import/prometheus", "text/plain", &b))
		})
	}
	for range 2 {
		go until(stop, func() {
			done(http.Get(server.URL + fmt.Sprintf(`/api/v1/query_range?query=sum(rate(requests_total{host="host%d"}[1m]))&start=-5m&step=10s`, rand.IntN(100))))
			time.Sleep(5 * time.Millisecond)
		})
	}
	return nil
}
