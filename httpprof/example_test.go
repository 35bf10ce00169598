package httpprof_test

import (
	"log"
	"net/http"

	"github.com/gotach/profiler/httpprof"
)

// Serve a profile over HTTP, like net/http/pprof and fgprof:
//
//	go tool pprof 'http://localhost:6060/debug/profile?seconds=10'
func ExampleHandler() {
	http.Handle("/debug/profile", httpprof.Handler())
	log.Fatal(http.ListenAndServe("localhost:6060", nil))
}
