package analyze

import (
	"testing"
	"time"

	"github.com/gotach/profiler/tachyon"
)

// The stacks of a connection between two requests, and in one.
var (
	connIdle   = []tachyon.Frame{{Func: "[IO wait]"}, place("bufio.(*Reader).Peek", 148), place("net/http.(*conn).serve", 7)}
	connServes = []tachyon.Frame{{Func: "[sleep]"}, place("main.handle", 4), place("net/http.serverHandler.ServeHTTP", 9), place("net/http.(*conn).serve", 7)}
)

// Ticks are late while the machine is busy. A handler has returned when its goroutine is seen elsewhere, however
// long the tick before the request was late, and however long the goroutine lives that reads from the connection.
func TestReadsEndWithHandler(t *testing.T) {
	r := record(t)
	read := []tachyon.Frame{{Func: "[IO wait]"}, place("net/http.(*connReader).backgroundRead", 5)}
	at := uint64(1000)
	const n = 50
	for i := range uint64(n) {
		r.add(7, at, 0, connIdle...)
		first := at + 8000 // late
		g := tachyon.Goroutine{ID: 100 + i, Parent: 7, CreatedBy: backgroundRead, First: first, FirstWeight: 8000}
		for at = first; at <= first+10_000; at += 1000 {
			r.add(7, at, 0, connServes...)
			r.add(g.ID, at, 0, read...)
			g.Last = at
		}
		for range i % 2 * 6 { // the handler has returned
			r.add(7, at, tachyon.HasGIL, place("net/http.(*response).finishRequest", 9), place("net/http.(*conn).serve", 7))
			r.add(g.ID, at, tachyon.GILRequested, append([]tachyon.Frame{{Func: tachyon.FuncRunnable}}, read...)...)
			g.Last = at
			at += 1000
		}
		r.goroutine(g)
	}
	r.add(7, at, 0, connIdle...)
	r.add(7, at+second, 0, connIdle...)
	s := r.close()
	out, f := readFinder(t, s)
	if len(out) != n || f.reads.len != n {
		t.Fatalf("%d requests, %d of them by what reads from the connection", len(out), f.reads.len)
	}
	for i, x := range out {
		if x.last-x.first != 10_000 || x.after-x.last != 1000 || x.first-x.before != 8000 {
			t.Fatalf("request %d: begins between %d and %d, ends between %d and %d", i, x.before, x.first, x.last, x.after)
		}
	}
}

// When the handler returns, the read is stopped. If the goroutine that reads has to wait for a core then, it lives longer
// than the handler ran, and the connection's goroutine may have no sample meanwhile.
func TestReadsEndWhenWoken(t *testing.T) {
	r := record(t)
	poll := []tachyon.Frame{{File: "/usr/lib/go/src/runtime/netpoll.go", Func: "internal/poll.runtime_pollWait", Line: 3}, place("net/http.(*connReader).backgroundRead", 5)}
	at := uint64(1000)
	const n = 20
	for i := range uint64(n) {
		r.add(7, at, 0, connIdle...)
		g := tachyon.Goroutine{ID: 100 + i, Parent: 7, CreatedBy: backgroundRead, First: at + 1000, FirstWeight: 1000}
		for ms := range 16 {
			at += 1000
			if ms < 10 {
				r.add(7, at, 0, connServes...)
				r.add(g.ID, at, 0, append([]tachyon.Frame{{Func: "[IO wait]"}}, poll...)...)
			} else {
				r.add(g.ID, at, tachyon.GILRequested, append([]tachyon.Frame{{Func: tachyon.FuncRunnable}}, poll...)...)
			}
			g.Last = at
		}
		at += 1000
		r.goroutine(g)
	}
	r.add(7, at, 0, connIdle...)
	r.add(7, at+second, 0, connIdle...)
	out, f := readFinder(t, r.close())
	if len(out) != n || f.reads.len != n {
		t.Fatalf("%d requests, %d of them by what reads from the connection", len(out), f.reads.len)
	}
	for i, x := range out {
		if x.last-x.first != 9000 || x.after-x.last != 1000 {
			t.Fatalf("request %d: begins between %d and %d, ends between %d and %d", i, x.before, x.first, x.last, x.after)
		}
	}
}

// readFinder finds the requests of a profile and returns those of which the lengths are taken.
func readFinder(t *testing.T, s *Samples) ([]*request, *finder) {
	t.Helper()
	f := newFinder(s, RequestOptions{})
	for x, err := range s.all() {
		if err == nil {
			_, err = f.add(x)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f.finish()
	return f.lengths(), f
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
		r := record(t)
		at := uint64(1000)
		const n, unseen = 100, 3 // requests of 5 ms, and times between samples after each
		for range n {
			for range unseen {
				at += 1000
				r.add(7, at, c.status, connIdle...)
			}
			for range 5 {
				at += 1000
				r.add(7, at, 0, connServes...)
			}
		}
		r.add(7, at+second, 0, connIdle...)
		out := must(FindRequests(r.close(), RequestOptions{}))(t)
		if out.AtLeast != c.atLeast || out.Count != n || !near(out.P50, c.p50, 1, time.Millisecond) {
			t.Errorf("status %#x: %d requests, %d estimated, at least: %t, p50 %v", c.status, out.Count, out.Estimated, out.AtLeast, out.P50)
		}
		// All but the first times between samples come after a request of that connection. The first sample after
		// a request is at another place than the one before: nothing is known of that time.
		if more := out.Estimated - out.Count; c.atLeast && (more < (unseen-1)*(n-1) || more > unseen*n) {
			t.Errorf("%d requests have no sample, want %d", more, (unseen-1)*(n-1))
		}
		if want := 5 * time.Millisecond; !near(out.P99, want, 1, time.Millisecond) {
			t.Errorf("p99 %v, want %v", out.P99, want)
		}
	}
}
