// Scores of a game. Who asks for the ranking sorts it under the lock under which others add their points.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type scores struct {
	mu     sync.Mutex
	points map[string]int
}

func (s *scores) add(player string, n int) {
	s.mu.Lock() // planted
	s.points[player] += n
	s.mu.Unlock()
}

func (s *scores) ranking() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	players := slices.Collect(maps.Keys(s.points))
	slices.SortFunc(players, func(a, b string) int { return cmp.Compare(s.points[b], s.points[a]) }) // planted
	return json.Marshal(players)
}

func main() {
	defer profiler.Start().Stop()
	s := &scores{points: map[string]int{}}
	for i := range 10_000 {
		s.add("player"+strconv.Itoa(i), i*7919%1000)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /add/{player}", func(w http.ResponseWriter, r *http.Request) {
		s.add("player"+r.PathValue("player"), 1)
		fmt.Fprintln(w, "ok")
	})
	go func() {
		for range time.Tick(20 * time.Millisecond) { // the board in the hall
			s.ranking()
		}
	}()
	run.Serve(mux, "/add/*", 6, 3*time.Millisecond)
}
