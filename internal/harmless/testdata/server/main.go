// Command server is an HTTP server for localhost. It ends some ms after SIGTERM, as many servers do.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/gotach/profiler/auto"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })
	srv := &http.Server{Addr: os.Args[1]}
	go func() {
		<-ctx.Done()
		_ = srv.Shutdown(context.Background())
		os.Exit(3)
	}()
	fmt.Fprintln(os.Stderr, srv.ListenAndServe())
	select {} // until the other goroutine exits
}
