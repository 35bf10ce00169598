package requests

import (
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// The stacks of a connection between two requests, and in one.
var (
	connIdle   = []tachyon.Frame{{Func: "[IO wait]"}, analyzetest.Place("bufio.(*Reader).Peek", 148), analyzetest.Place("net/http.(*conn).serve", 7)}
	connServes = []tachyon.Frame{{Func: "[sleep]"}, analyzetest.Place("main.handle", 4), analyzetest.Place("net/http.serverHandler.ServeHTTP", 9), analyzetest.Place("net/http.(*conn).serve", 7)}
)

// Ticks are late while the machine is busy. A handler has returned when its goroutine is seen elsewhere, however
// long the tick before the request was late, and however long the goroutine lives that reads from the connection.
func TestReadsEndWithHandler(t *testing.T) {
	r := analyzetest.Record(t)
	read := []tachyon.Frame{{Func: "[IO wait]"}, analyzetest.Place("net/http.(*connReader).backgroundRead", 5)}
	at := uint64(1000)
	const n = 50
	for i := range uint64(n) {
		r.Add(7, at, 0, connIdle...)
		first := at + 8000 // late
		g := tachyon.Goroutine{ID: 100 + i, Parent: 7, CreatedBy: analyze.BackgroundRead, First: first, FirstWeight: 8000}
		for at = first; at <= first+10_000; at += 1000 {
			r.Add(7, at, 0, connServes...)
			r.Add(g.ID, at, 0, read...)
			g.Last = at
		}
		for range i % 2 * 6 { // the handler has returned
			r.Add(7, at, tachyon.HasGIL, analyzetest.Place("net/http.(*response).finishRequest", 9), analyzetest.Place("net/http.(*conn).serve", 7))
			r.Add(g.ID, at, tachyon.GILRequested, append([]tachyon.Frame{{Func: tachyon.FuncRunnable}}, read...)...)
			g.Last = at
			at += 1000
		}
		r.Goroutine(g)
	}
	r.Add(7, at, 0, connIdle...)
	r.Add(7, at+analyzetest.OneSecond, 0, connIdle...)
	checkReads(t, r, n, 8000, 10_000)
}

// checkReads checks that there are n requests by what reads from the connection, which begin so long after the sample before, take so
// long, and end within a tick, in µs.
func checkReads(t *testing.T, r *analyzetest.Recording, n int, late, length uint64) {
	t.Helper()
	f := testenv.Must(readFinder(r.Close(), Options{}))
	out := f.lengths(false)
	testenv.Same(t, "requests, and those by what reads from the connection", [2]int{len(out), int(f.reads.Len)}, [2]int{n, n})
	for i, x := range out {
		testenv.Same(t, i, [3]uint64{x.first - x.before, x.last - x.first, x.after - x.last}, [3]uint64{late, length, 1000})
	}
}

// When the handler returns, the read is stopped. If the goroutine that reads has to wait for a core then, it lives longer
// than the handler ran, and the connection's goroutine may have no sample meanwhile.
func TestReadsEndWhenWoken(t *testing.T) {
	r := analyzetest.Record(t)
	poll := []tachyon.Frame{{File: "/usr/lib/go/src/runtime/netpoll.go", Func: "internal/poll.runtime_pollWait", Line: 3}, analyzetest.Place("net/http.(*connReader).backgroundRead", 5)}
	at := uint64(1000)
	const n = 20
	for i := range uint64(n) {
		r.Add(7, at, 0, connIdle...)
		g := tachyon.Goroutine{ID: 100 + i, Parent: 7, CreatedBy: analyze.BackgroundRead, First: at + 1000, FirstWeight: 1000}
		for ms := range 16 {
			at += 1000
			if ms < 10 {
				r.Add(7, at, 0, connServes...)
				r.Add(g.ID, at, 0, append([]tachyon.Frame{{Func: "[IO wait]"}}, poll...)...)
			} else {
				r.Add(g.ID, at, tachyon.GILRequested, append([]tachyon.Frame{{Func: tachyon.FuncRunnable}}, poll...)...)
			}
			g.Last = at
		}
		at += 1000
		r.Goroutine(g)
	}
	r.Add(7, at, 0, connIdle...)
	r.Add(7, at+analyzetest.OneSecond, 0, connIdle...)
	checkReads(t, r, n, 1000, 9000)
}

// A connection that ran between two samples, and waits for the next request at both, served requests that nobody saw.
// They are the shortest ones: percentiles count them.
func TestRequestsUnseen(t *testing.T) {
	for _, c := range []struct {
		status  tachyon.Status
		atLeast bool
		p50     time.Duration
	}{
		{0, false, 5 * time.Millisecond},
		{tachyon.Moved, true, 0},
	} {
		r := analyzetest.Record(t)
		at := uint64(1000)
		const n, unseen = 100, 3 // requests of 5 ms, and times between samples after each
		for range n {
			for range unseen {
				at += 1000
				r.Add(7, at, c.status, connIdle...)
			}
			for range 5 {
				at += 1000
				r.Add(7, at, 0, connServes...)
			}
		}
		r.Add(7, at+analyzetest.OneSecond, 0, connIdle...)
		out := testenv.Must(Find(r.Close(), Options{}))
		if (out.High == 0) != c.atLeast || out.Seen != n || !analyzetest.Near(out.P50, c.p50, 1, time.Millisecond) {
			t.Errorf("status %#x: %+v, p50 %v", c.status, out.Number, out.P50)
		}
		// All but the first times between samples come after a request of that connection. The first sample after
		// a request is at another place than the one before: nothing is known of that time.
		if more := out.Low - out.Seen; c.atLeast && (more < (unseen-1)*(n-1) || more > unseen*n) {
			t.Errorf("%d requests have no sample, want %d", more, (unseen-1)*(n-1))
		}
		if want := 5 * time.Millisecond; !analyzetest.Near(max(out.P99, out.P99Below), want, 1, time.Millisecond) || (out.P99 == 0) != c.atLeast {
			t.Errorf("p99 %v, below %v, want %v", out.P99, out.P99Below, want)
		}
	}
}
