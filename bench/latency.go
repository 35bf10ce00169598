package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"
)

// latencyProfilers are the words that choose the profilers of this measurement if none are given.
const latencyProfilers = "native,fgprof,CPU profile"

const (
	// Each request computes for about requestCPU and then waits for requestWait, as for a database.
	requestCPU, requestWait = time.Millisecond, 2 * time.Millisecond

	// halfLoad is the share of all cores that the server and its clients use.
	halfLoad = 0.5

	// At firstRate it is measured how much CPU time a request takes.
	firstRate = 200

	// warmUp is the time in which the clients open their connections. It does not count.
	warmUp = 500 * time.Millisecond
)

// latencyQuantiles are what users ask for.
var latencyQuantiles = [3]float64{0.5, 0.99, 0.999}

// A LatencySetting says what a process of the latency measurement measures.
type LatencySetting Setting

// A latencyRow is the result for one profiler.
type latencyRow struct {
	LatencySetting
	Requests int           // a second
	Without  [3]float64    // s: medians of the windows' quantiles
	With     [3]float64    // the same with the profiler
	More     [3][3]float64 // share: how much longer they are in a pair, as medianInterval returns it
}

// measureLatency measures in its own process, which is the server.
func measureLatency(s LatencySetting) (latencyRow, error) {
	r := latencyRow{LatencySetting: s}
	kind, err := kindOf(s.Profiler)
	if err != nil {
		return r, err
	}
	address, err := serveRequests()
	if err != nil {
		return r, err
	}
	ask := func(rate int) (took []float64, err error) {
		runtime.GC()
		err = child(clients{address, rate, s.Window}, "clients", &took)
		return took, err
	}
	cpu := allCPU()
	if _, err := ask(firstRate); err != nil {
		return r, err
	}
	each := (allCPU() - cpu).Seconds() / firstRate / (warmUp + s.Window).Seconds()
	r.Requests = int(halfLoad * float64(runtime.GOMAXPROCS(0)) / max(each, requestCPU.Seconds()))
	window := func() (q [3]float64, err error) {
		took, err := ask(r.Requests)
		for i, at := range latencyQuantiles {
			q[i] = quantile(took, at)
		}
		return q, err
	}
	with := func() (q [3]float64, err error) {
		rate := kind.rate
		if rate == 0 {
			rate = s.Rate
		}
		p, err := kind.start(rate, kind.budget)
		if err != nil {
			return q, err
		}
		time.Sleep(s.Settle)
		q, err = window()
		if _, stop := p.stop(); err == nil {
			err = stop
		}
		return q, err
	}
	var values [2][3][]float64 // without and with
	var more [3][]float64
	for i := range s.Pairs {
		var q [2][3]float64
		for n := range 2 { // half of the pairs begin with the session, so that a trend cancels out
			which, do := (n+i)%2, window
			if which == 1 {
				do = with
			}
			if q[which], err = do(); err != nil {
				return r, err
			}
		}
		for k := range latencyQuantiles {
			for which := range values {
				values[which][k] = append(values[which][k], q[which][k])
			}
			more[k] = append(more[k], q[1][k]/q[0][k]-1)
		}
	}
	for k := range latencyQuantiles {
		r.Without[k], r.With[k] = quantile(values[0][k], 0.5), quantile(values[1][k], 0.5)
		r.More[k] = medianInterval(more[k])
	}
	return r, nil
}

// serveRequests starts an HTTP server whose requests compute and wait. It returns its address.
func serveRequests() (string, error) {
	ready := sync.Pool{New: func() any { return blocks() }}
	block := blocks()
	fastest := time.Hour
	for range 200 {
		begin := time.Now()
		block()
		fastest = min(fastest, time.Since(begin))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		block := ready.Get().(func())
		for range requestCPU / fastest {
			block()
		}
		ready.Put(block)
		time.Sleep(requestWait)
		io.WriteString(w, "done\n")
	}))
	return l.Addr().String(), nil
}

// clients are a process of their own, so that the profiler does not see them.
type clients struct {
	Address string
	Rate    int // requests a second
	Window  time.Duration
}

// send sends requests at random times, whether earlier ones have been answered or not. It returns
// how long each took, in s, from the time at which it should have been sent.
func send(c clients) (took []float64, err error) {
	client := http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	var all sync.WaitGroup
	var mu sync.Mutex
	begin := time.Now()
	for at := time.Duration(0); at < warmUp+c.Window; at += time.Duration(rand.ExpFloat64() / float64(c.Rate) * 1e9) {
		time.Sleep(time.Until(begin.Add(at)))
		all.Go(func() {
			answer, failed := client.Get("http://" + c.Address)
			if failed == nil {
				_, failed = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
			mu.Lock()
			defer mu.Unlock()
			if failed != nil {
				err = failed
			}
			if at >= warmUp {
				took = append(took, (time.Since(begin) - at).Seconds())
			}
		})
	}
	all.Wait()
	return took, err
}

// latencies measures the profilers and writes the table to out.
func latencies(out, progress io.Writer, kinds []profilerKind, s Setting) error {
	var rows []latencyRow
	for i, k := range kinds {
		s.Profiler = k.name
		fmt.Fprintf(progress, "%d of %d: %s\n", i+1, len(kinds), k.name)
		var r latencyRow
		if err := child(LatencySetting(s), "latency", &r); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		rows = append(rows, r)
	}
	_, err := io.WriteString(out, latencyTable(rows))
	return err
}

func latencyTable(rows []latencyRow) string {
	var b strings.Builder
	r := rows[0]
	fmt.Fprintf(&b, "%s %s/%s, %d CPUs; medians of %d pairs of %v, %d requests a second.\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), r.Pairs, r.Window, r.Requests)
	b.WriteString("| profiler | p50 without | p99 | p99.9 | p50 with | p99 | p99.9 | p50 more | p99 more | p99.9 more |\n|---" + strings.Repeat("|--:", 9) + "|\n")
	for _, r := range rows {
		b.WriteString("| " + r.Profiler)
		for _, v := range append(r.Without[:], r.With[:]...) {
			b.WriteString(" | " + seconds(v))
		}
		for _, v := range r.More {
			b.WriteString(" | " + number("%.1f %%", 100*v[1]) + " (" + number("%.1f", 100*v[0]) + "…" + number("%.1f", 100*v[2]) + ")")
		}
		b.WriteString(" |\n")
	}
	return b.String()
}
