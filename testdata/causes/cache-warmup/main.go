// A server that fills a big cache first, on all its cores, and then answers from it.
package main

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type article struct {
	name     string
	keywords []string
	related  []uint64
}

type cache struct{ shards []map[string]*article }

func (c *cache) fill(shard, n int) {
	m := make(map[string]*article, n)
	for i := range n {
		h := fnv.New64()
		fmt.Fprint(h, shard, i)
		a := &article{name: "article " + strconv.Itoa(i)}
		for k := range 6 {
			a.keywords = append(a.keywords, a.name[:4+k])
			a.related = append(a.related, h.Sum64()>>k)
		}
		m[strconv.Itoa(shard)+"-"+strconv.Itoa(i)] = a
	}
	c.shards[shard] = m
}

func (c *cache) article(w http.ResponseWriter, r *http.Request) {
	for _, m := range c.shards {
		if a := m[r.PathValue("id")]; a != nil {
			fmt.Fprintln(w, a.name, a.keywords, a.related)
			return
		}
	}
	http.NotFound(w, r)
}

func main() {
	defer profiler.Start().Stop()
	c := &cache{make([]map[string]*article, runtime.GOMAXPROCS(0))}
	var group sync.WaitGroup
	for shard := range c.shards {
		group.Go(func() { c.fill(shard, 600_000/len(c.shards)) })
	}
	group.Wait()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /article/{id}", c.article)
	run.Serve(mux, "/article/0-77", 3, 10*time.Millisecond)
}
