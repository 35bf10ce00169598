package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler"
)

// The test binary is also the two programs of TestTwoPrograms.
func TestMain(m *testing.M) {
	switch os.Getenv("GOTACH_FLEET_PROGRAM") {
	case "shop":
		os.Exit(status(shop()))
	case "stock":
		os.Exit(status(stock()))
	}
	os.Exit(m.Run())
}

func status(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

var inStock sync.Mutex

// stock serves until a request says that it is to end. A request takes some 300 ms, of which half are for a lock or asleep.
func stock() (err error) {
	session := profiler.Start(profiler.Service("stock", "v2"))
	defer func() { err = errors.Join(err, session.Stop()) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	end := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/end", func(http.ResponseWriter, *http.Request) { close(end) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		parent := strings.Split(r.Header.Get("Traceparent"), "-")
		if len(parent) != 4 {
			http.Error(w, "no traceparent", http.StatusBadRequest)
			return
		}
		span(r.Context(), parent[1], func(_ context.Context, id string) {
			inStock.Lock()
			defer inStock.Unlock()
			work(150 * time.Millisecond)
			time.Sleep(150 * time.Millisecond)
			fmt.Fprint(w, id)
		})
	})
	server := &http.Server{Handler: mux}
	go server.Serve(l)
	<-end
	return server.Shutdown(context.Background())
}

// shop makes requests, two at a time, and prints the ids of their traces and spans.
func shop() (err error) {
	session := profiler.Start(profiler.Service("shop", "v1"))
	defer func() { err = errors.Join(err, session.Stop()) }()
	url := "http://" + os.Getenv("GOTACH_FLEET_STOCK")
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range 2 {
				trace := random(16)
				span(context.Background(), trace, func(_ context.Context, id string) {
					r, _ := http.NewRequest(http.MethodGet, url, nil)
					r.Header.Set("Traceparent", "00-"+trace+"-"+id+"-01")
					answer, err := http.DefaultClient.Do(r)
					if err != nil {
						fmt.Println(err)
						return
					}
					defer answer.Body.Close()
					other, _ := io.ReadAll(answer.Body)
					work(100 * time.Millisecond)
					fmt.Println(trace, id, string(other))
				})
			}
		})
	}
	all.Wait()
	answer, err := http.Get(url + "/end")
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// span runs a function with the labels of a new span.
func span(ctx context.Context, trace string, f func(ctx context.Context, id string)) {
	id := random(8)
	pprof.Do(ctx, pprof.Labels("trace_id", trace, "span_id", id), func(ctx context.Context) { f(ctx, id) })
}

func random(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b)
	return hex.EncodeToString(b)
}

var sink atomic.Int64

// work calculates for some time.
func work(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for i := range 10_000 {
			sink.Add(int64(i))
		}
	}
}
