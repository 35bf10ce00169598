// Parcels wait in a queue with four places for one scale, which another program serves. The program also has the
// clients that try it out.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"causes/run"

	"github.com/gotach/profiler"
)

type queue struct {
	mu      sync.Mutex
	changed *sync.Cond
	parcels []string
}

func (q *queue) put(parcel string) {
	q.mu.Lock()
	for len(q.parcels) == 4 {
		q.changed.Wait() // planted
	}
	q.parcels = append(q.parcels, parcel)
	q.mu.Unlock()
	q.changed.Broadcast()
}

func (q *queue) take() string {
	q.mu.Lock()
	for len(q.parcels) == 0 {
		q.changed.Wait()
	}
	parcel := q.parcels[0]
	q.parcels = q.parcels[1:]
	q.mu.Unlock()
	q.changed.Broadcast()
	return parcel
}

// get is what the scale and the clients ask with.
func get(client *http.Client, url string) {
	resp, err := client.Get(url)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
}

func (q *queue) weigh(client *http.Client, url string) {
	for {
		get(client, url+"/"+q.take())
	}
}

func try(ctx context.Context, client *http.Client, url string) {
	for n := 0; ctx.Err() == nil; n++ {
		get(client, fmt.Sprintf("%s/parcel/%d", url, n))
	}
}

func main() {
	defer profiler.Start().Stop()
	q := &queue{}
	q.changed = sync.NewCond(&q.mu)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 20}}
	go q.weigh(client, run.Beside("http", "20ms", "20"))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /parcel/{n}", func(w http.ResponseWriter, r *http.Request) {
		q.put(r.PathValue("n"))
		fmt.Fprintln(w, "taken")
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := &http.Server{Handler: mux}
	go server.Serve(l)
	ctx := run.Context()
	for range 8 {
		go try(ctx, client, "http://"+l.Addr().String())
	}
	<-ctx.Done()
	server.Close()
}
