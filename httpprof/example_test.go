package httpprof_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/gotach/profiler/httpprof"
)

// Serve a profile over HTTP, like net/http/pprof and fgprof:
//
//	go tool pprof 'http://localhost:6060/debug/profile?seconds=10'
func ExampleHandler() {
	mux := http.NewServeMux()
	mux.Handle("/debug/profile", httpprof.Handler())

	srv := httptest.NewServer(mux)
	defer srv.Close()
	res, err := http.Get(srv.URL + "/debug/profile?seconds=1&format=pprof")
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	fmt.Println(res.Status, res.Header.Get("Content-Disposition"))
	// Output: 200 OK attachment; filename="profile.pb.gz"
}
