// A search that asks three replicas and takes the answer that comes first. The two others never get rid of theirs.
package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type answer struct {
	replica int
	hits    []uint64
}

type index struct{ replicas int }

func (x *index) search(query string) answer {
	first := make(chan answer)
	for i := range x.replicas {
		go x.ask(i, query, first)
	}
	return <-first
}

func (x *index) ask(replica int, query string, first chan<- answer) {
	time.Sleep(time.Duration(1+rand.IntN(4)) * time.Millisecond) // the way there and back
	h := fnv.New64()
	hits := make([]uint64, 20)
	for i := range hits {
		fmt.Fprint(h, query, i)
		hits[i] = h.Sum64()
	}
	first <- answer{replica, hits} // planted
}

func main() {
	defer profiler.Start().Stop()
	x := &index{replicas: 3}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /search/{query}", func(w http.ResponseWriter, r *http.Request) {
		a := x.search(r.PathValue("query"))
		fmt.Fprintln(w, a.replica, a.hits)
	})
	run.Serve(mux, "/search/shoes*", 4, 15*time.Millisecond)
}
