// A server whose profiler takes two ticks a second, so that there are few samples of it.
package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

func checksum(w http.ResponseWriter, r *http.Request) {
	sum := sha256.Sum256([]byte(r.PathValue("file")))
	for range 2_000 {
		sum = sha256.Sum256(sum[:])
	}
	time.Sleep(3 * time.Millisecond)
	fmt.Fprintf(w, "%x\n", sum)
}

func main() {
	defer profiler.Start(profiler.Rate(2)).Stop() // planted
	mux := http.NewServeMux()
	mux.HandleFunc("GET /checksum/{file}", checksum)
	run.Serve(mux, "/checksum/*", 4, 5*time.Millisecond)
}
