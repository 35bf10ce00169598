// Command peers is a program with clients and servers of one kind: net/http, HTTP/2, gRPC, database/sql, NATS or
// Redis. It profiles itself, under load or without, and writes a log of its requests.
//
//	peers KIND LOAD PROFILE LOG
//
// LOAD is none, or a duration for which the program sends requests. Half of the requests have the pprof label
// "request". The log has a line for each request and each time in which a handler does something: goroutine id,
// begin, end (µs since 1970), 1 if it has the label.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gotach/profiler"
)

// quiet is how long the program is profiled without load.
const quiet = time.Second

// A client sends one request and waits for the answer.
type client func(ctx context.Context, n int) error

// kinds start the servers of a kind and return its clients. With the build tag std there are only those of the
// standard library.
var kinds = map[string]func() []client{"http1": startHTTP1, "http2": startHTTP2}

func main() {
	kind, load, out, log := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	clients := kinds[kind]()
	warm(clients)
	s, err := profiler.Open(profiler.Output(out), profiler.Budget(100))
	check(err)
	if load == "none" {
		time.Sleep(quiet)
	} else {
		d, err := time.ParseDuration(load)
		check(err)
		send(clients, d)
	}
	check(s.Stop())
	check(os.WriteFile(log, theLog.Bytes(), 0o644))
	for _, f := range atEnd {
		f()
	}
	os.Exit(0) // without the servers' own ends
}

var atEnd []func()

// warm opens connections: 12 requests of each client at the same time. The goroutines that the libraries start
// meanwhile inherit the label.
func warm(clients []client) {
	var group sync.WaitGroup
	for _, c := range clients {
		for range 12 {
			group.Go(func() {
				pprof.Do(context.Background(), pprof.Labels("request", "first"), func(ctx context.Context) { check(c(ctx, 0)) })
			})
		}
	}
	group.Wait()
	time.Sleep(50 * time.Millisecond)
}

// send sends requests for some time, of each client four at a time.
func send(clients []client, d time.Duration) {
	var group sync.WaitGroup
	end := time.Now().Add(d)
	for _, c := range clients {
		for i := range 4 {
			group.Go(func() { loop(c, i, end) })
		}
	}
	group.Wait()
}

// loop sends one request after the other. Half of the loops set the label.
func loop(c client, i int, end time.Time) {
	id := goroutine()
	for n := i; time.Now().Before(end); n++ {
		begin := time.Now()
		if i%2 == 0 {
			pprof.Do(context.Background(), pprof.Labels("request", strconv.Itoa(n)), func(ctx context.Context) { check(c(ctx, n)) })
		} else {
			check(c(context.Background(), n))
		}
		note(id, begin, i%2 == 0)
	}
}

// handle is what each server does for a request: it mostly waits.
func handle(n int) {
	begin := time.Now()
	time.Sleep(time.Duration(2+n%7) * time.Millisecond)
	if n%20 == 0 {
		<-time.After(30 * time.Millisecond)
	}
	note(goroutine(), begin, false)
}

var (
	logMu  sync.Mutex
	theLog bytes.Buffer
)

func note(id uint64, begin time.Time, labelled bool) {
	end := time.Now()
	logMu.Lock()
	defer logMu.Unlock()
	label := 0
	if labelled {
		label = 1
	}
	fmt.Fprintln(&theLog, id, begin.UnixMicro(), end.UnixMicro(), label)
}

// goroutine returns the id of the goroutine.
func goroutine() uint64 {
	b := make([]byte, 64)
	fields := strings.Fields(string(b[:runtime.Stack(b, false)]))
	id, err := strconv.ParseUint(fields[1], 10, 64)
	check(err)
	return id
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
