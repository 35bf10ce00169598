// Films are read slowly by those who ask for them.
package main

import (
	"net"
	"net/http"

	"causes/run"

	"github.com/gotach/profiler"
)

type films struct{ film []byte }

func (f *films) show(w http.ResponseWriter, r *http.Request) {
	w.Write(f.film) // planted
}

func main() {
	defer profiler.Start().Stop()
	f := &films{make([]byte, 12<<20)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(f.show)}
	go server.Serve(l)
	run.Beside("readers", "http://"+l.Addr().String()+"/film", "8", "2ms")
	<-run.Context().Done()
	server.Close()
}
