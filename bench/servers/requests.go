package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gotach/profiler"
)

// A diary is what a program says of its own requests: when each ended and how long it took, in µs,
// by kind.
type diary struct {
	mu   sync.Mutex
	took map[string][][2]int64
}

var requests = diary{took: map[string][][2]int64{}}

// timed calls f, and notes how long that took.
func timed(kind string, f func()) {
	begin := time.Now()
	f()
	end := time.Now()
	requests.mu.Lock()
	requests.took[kind] = append(requests.took[kind], [2]int64{end.UnixMicro(), end.Sub(begin).Microseconds()})
	requests.mu.Unlock()
}

// record records a session of a load, and writes the diary beside it, to requests.json.
func (d *diary) record(seconds int, folder string) error {
	session := profiler.Start(profiler.Output(filepath.Join(folder, "gotach.tach")))
	time.Sleep(time.Duration(seconds) * time.Second)
	if err := session.Stop(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	b, err := json.Marshal(d.took)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "requests.json"), b, 0o600)
}

// askers are what clients in a process of their own do, by name.
var askers = map[string]func(address string) (ask func(), err error){
	"keep": func(address string) (func(), error) { return get(&http.Transport{}, address), nil },
	"new": func(address string) (func(), error) {
		return get(&http.Transport{DisableKeepAlives: true}, address), nil
	},
}

func get(t http.RoundTripper, address string) func() {
	client := &http.Client{Transport: t}
	return func() {
		if r, err := client.Get("http://" + address); err == nil {
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
	}
}

// startClients starts so many clients in another process, which wait between two requests.
func startClients(stop <-chan struct{}, name, address string, clients int, pause time.Duration) error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("SERVERS_ASK=%s %s %d %s", name, address, clients, pause))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		<-stop
		in.Close()
		cmd.Wait()
	}()
	return nil
}

// asks is the other process.
func asks(what string) error {
	var name, address, wait string
	var clients int
	if _, err := fmt.Sscan(what, &name, &address, &clients, &wait); err != nil {
		return err
	}
	pause, err := time.ParseDuration(wait)
	if err != nil {
		return err
	}
	for range clients {
		f, err := askers[name](address)
		if err != nil {
			return err
		}
		go until(nil, func() { f(); time.Sleep(pause) })
	}
	io.Copy(io.Discard, os.Stdin) // until the server ends
	return nil
}

// handle serves HTTP, and returns the address.
func handle(kind string, f http.HandlerFunc) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		timed(kind, func() { f(w, r) })
	})
	go http.Serve(l, mux)
	return l.Addr().String(), nil
}

func init() {
	loads["connections"], loads["appends"], loads["groups"] = connections, appends, groups
}

// connections has a connection for each request, which takes a tenth of a millisecond.
func connections(stop <-chan struct{}, _ string) error {
	address, err := handle("http", func(w http.ResponseWriter, _ *http.Request) {
		computing(80 * time.Microsecond)
		io.WriteString(w, "done")
	})
	if err != nil {
		return err
	}
	return startClients(stop, "new", address, 4, 5*time.Millisecond)
}

// appends has requests that append to a file and wait for the disk.
func appends(stop <-chan struct{}, folder string) error {
	f, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return err
	}
	var mu sync.Mutex
	address, err := handle("http", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		io.WriteString(f, strings.Repeat("x", 100))
		f.Sync()
	})
	if err != nil {
		return err
	}
	return startClients(stop, "keep", address, 16, 0)
}

// groups has requests of which one in four waits for a group of three goroutines, for 20 ms.
func groups(stop <-chan struct{}, _ string) error {
	var n atomic.Int64
	address, err := handle("http", func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%4 != 0 {
			computing(100 * time.Microsecond)
			return
		}
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() { time.Sleep(time.Duration(18+i) * time.Millisecond) })
		}
		all.Wait()
	})
	if err != nil {
		return err
	}
	return startClients(stop, "keep", address, 4, time.Millisecond)
}
