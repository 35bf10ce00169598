package requests

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// The stacks of two servers that are one process, without what the handlers do.
var (
	throughMux = []tachyon.Frame{analyzetest.Place("net/http.HandlerFunc.ServeHTTP", 1), analyzetest.Place("net/http.(*ServeMux).ServeHTTP", 2), analyzetest.Place("net/http.serverHandler.ServeHTTP", 9), analyzetest.Place("net/http.(*conn).serve", 7)}
	throughRPC = []tachyon.Frame{
		{File: "/root/go/pkg/mod/example.org/api@v1.0.0/x.go", Func: "example.org/api._Greeter_Hello_Handler", Line: 3},
		{File: "/root/go/pkg/mod/google.golang.org/grpc@v1.0.0/x.go", Func: "google.golang.org/grpc.(*Server).processUnaryRPC", Line: 4},
	}
)

// served7 adds a request of goroutine 7 that takes so long, after 5 ms between requests. It returns when it ends.
func served7(r *analyzetest.Recording, at, ms uint64, frames ...tachyon.Frame) uint64 {
	r.Every(1000, at+1000, at+5000, 7, 0, connIdle...)
	r.Every(1000, at+6000, at+5000+1000*ms, 7, analyzetest.Running, frames...)
	return at + 5000 + 1000*ms
}

// Each kind of request and each handler has a row of its own. A download of a profile, which is an HTTP request, does not hide
// calls of gRPC, and is not counted with them. Middleware is no handler, and who counts with expvar is at work.
func TestRequestRows(t *testing.T) {
	r := analyzetest.Record(t)
	slow, fast := analyzetest.Place("main.slow", 5), analyzetest.Place("main.fast", 6)
	logged := []tachyon.Frame{analyzetest.Place("net/http.HandlerFunc.ServeHTTP", 1), analyzetest.Place("main.logged", 3)}
	profile := []tachyon.Frame{{Func: "[sleep]"}, analyzetest.Place("net/http/pprof.sleep", 8), analyzetest.Place("net/http/pprof.Profile", 9)}
	r.Every(1000, 1000, 990_000, 5, 0, append(profile, throughMux...)...)
	r.Add(5, 991_000, 0, connIdle...)
	at := uint64(0)
	serve := func(ms uint64, frames ...tachyon.Frame) { at = served7(r, at, ms, frames...) }
	for range 20 {
		serve(4, append([]tachyon.Frame{analyzetest.Place("expvar.(*Int).Add", 9), fast}, throughMux...)...)
		serve(12, slices.Concat([]tachyon.Frame{slow}, logged, throughMux)...)
		r.Every(1000, at+1000, at+2000, 7, analyzetest.Running, append([]tachyon.Frame{analyzetest.Place("main.logged", 4)}, throughMux...)...) // after it
		at += 2000
	}
	r.Every(1000, at+1000, at+5000, 7, 0, connIdle...)
	for g := uint64(100); g < 130; g++ {
		from := 10_000 * (g - 99)
		r.Every(1000, from, from+7000, g, analyzetest.Running, append([]tachyon.Frame{analyzetest.Place("main.(*server).Hello", 4)}, throughRPC...)...)
	}
	out := testenv.Must(Find(r.Close(), Options{}))
	testenv.Same(t, "requests", fmt.Sprint(out.Seen, out.What), "70HTTP handlers (ServeHTTP), gRPC handlers")
	type row struct {
		kind, handler string
		all, aside    bool
		seen          int
		p50           time.Duration
	}
	var got []row
	for _, x := range out.Rows {
		got = append(got, row{x.Kind, x.Handler, x.All, x.Aside, x.Seen, max(x.P50, x.P50Below).Round(2 * time.Millisecond)})
	}
	const ms = time.Millisecond
	want := []row{
		{"HTTP", "", true, false, 40, 14 * ms}, {"gRPC", "", true, false, 30, 8 * ms}, {"debug", "", true, true, 1, 990 * ms},
		{"debug", "net/http/pprof.Profile", false, true, 1, 990 * ms}, {"HTTP", "main.slow", false, false, 20, 14 * ms},
		{"gRPC", "example.org/api._Greeter_Hello_Handler", false, false, 30, 8 * ms}, {"HTTP", "main.fast", false, false, 20, 4 * ms},
	}
	for i, x := range want {
		if (got[i].p50-x.p50).Abs() <= max(2*ms, x.p50/50) || i == 0 {
			got[i].p50 = x.p50
		}
	}
	testenv.Same(t, "rows", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
}

// A profile that has only requests that look at the program shows these. So does one of tests.
func TestRequestsAside(t *testing.T) {
	for what, stack := range map[string][]tachyon.Frame{
		"requests to look at the program itself": append([]tachyon.Frame{analyzetest.Place("expvar.expvarHandler", 9)}, throughMux...),
		"tests":                                  {analyzetest.Place("main.TestX", 3), analyzetest.Place("testing.tRunner", 9)},
	} {
		r := analyzetest.Record(t)
		r.Every(1000, 1000, 10_000, 5, analyzetest.Running, stack...)
		r.Every(1000, 11_000, 99_000, 5, 0, connIdle...)
		out := testenv.Must(Find(r.Close(), Options{}))
		testenv.Same(t, what, fmt.Sprint(out.Seen, out.What), "1"+what)
	}
}

// The runtime numbers goroutines: what began between two ticks is counted. It is not known whose these are if others start
// goroutines that are short, too.
func TestRequestsBirths(t *testing.T) {
	const each = 20 // goroutines, of which one has samples
	for _, c := range []struct {
		others    bool   // each call starts a goroutine, which has samples as rarely
		lasts     uint64 // for so long, in µs
		scraped   bool   // there is a connection of HTTP/1 beside, whose request has no sample
		low, high int
	}{{false, 0, false, 930, 1090}, {true, 0, false, 30, 2120}, {true, 15_000, false, 30, 2120}, {true, 15_000, true, 30, 2120}} {
		r := analyzetest.Record(t)
		r.Every(1000, 0, analyzetest.OneSecond, 2, 0, tachyon.Frame{Func: "[sleep]"}, analyzetest.Place("main.main", 3))
		r.Goroutine(tachyon.Goroutine{ID: 2, Last: analyzetest.OneSecond})
		id := uint64(3)
		for i := range uint64(50) {
			at := 20_000*i + 30_000
			id += each
			g := tachyon.Goroutine{ID: id, CreatedBy: "google.golang.org/grpc.(*Server).serveStreams", First: at, FirstWeight: 1000, Last: at + 2000*(i%2)}
			r.Every(1000, at, g.Last, g.ID, analyzetest.Running, append([]tachyon.Frame{analyzetest.Place("main.(*server).Hello", 4)}, throughRPC...)...)
			r.Goroutine(g)
			if c.scraped && i == 25 {
				r.Add(id-1, at, 0, analyzetest.Wait("IO wait"), analyzetest.Place("net/http.(*connReader).backgroundRead", 9))
				r.Goroutine(tachyon.Goroutine{ID: id - 1, CreatedBy: analyze.BackgroundRead, First: at, FirstWeight: 1000, Last: at})
			}
			if c.others {
				id += each
				r.Every(1000, at, at+c.lasts, id, analyzetest.Running, analyzetest.Place("main.write", 9))
				r.Goroutine(tachyon.Goroutine{ID: id, CreatedBy: "main.(*server).Hello", First: at, FirstWeight: 1000, Last: at + c.lasts})
			}
		}
		out := testenv.Must(Find(r.Close(), Options{}))
		testenv.FailIf(t, out.Seen != 49 || out.Low < 50 || out.Low > c.low+50 || out.High < c.high-60 || out.High > c.high+20 || out.Count < out.Low || out.Count > out.High, "others: %t, %d µs, scraped: %t: %+v, want from %d to %d", c.others, c.lasts, c.scraped, out.Number, c.low, c.high)
		testenv.FailIf(t, !c.others && (out.P50 != 0 || out.P50Below != time.Millisecond || out.P99 < 2*time.Millisecond || out.P99 > 4*time.Millisecond), "%+v", out.Lengths)
		testenv.FailIf(t, c.others && (out.P90 != 0 || out.P90Below < 2*time.Millisecond), "%+v", out.Lengths)
		testenv.Within(t, "a second", out.SlowPerSecond, 10, 30)
		testenv.Within(t, "slow", out.SlowOver, 2*time.Millisecond, time.Second)
	}
	// Where no births tell of requests, the least number is less than the estimate.
	out, _ := new(births).numbers([analyze.KindCount]float64{analyze.KindConnect: 120}, [analyze.KindCount]float64{}, [analyze.KindCount]int{analyze.KindConnect: 100})
	testenv.Same(t, "the least number", out[analyze.KindConnect], Number{Count: 120, Low: 110, Seen: 100})
	// If fewer began than samples tell, some samples may be late, so that one request looks like several.
	few := &births{all: 80, sites: map[string]*birthSite{analyze.BackgroundRead: {n: 70, list: []*request{{first: 1, last: 9, after: 10}}}}}
	out, _ = few.numbers([analyze.KindCount]float64{analyze.KindHTTP: 100}, [analyze.KindCount]float64{}, [analyze.KindCount]int{analyze.KindHTTP: 100})
	testenv.Same(t, "the least number", out[analyze.KindHTTP].Low, 80)
}

// Births are taken for those of requests unless the goroutines of connections stopped too rarely for that: each request stops
// them. Where each request starts another goroutine, which is as long, it is not known whose births have no sample, unless the
// connection never ran between two requests.
func TestRequestsStops(t *testing.T) {
	for _, c := range []struct{ stops, low, high, others, ran int }{{2 * 1000, 880, 1100, 0, 1}, {2 * 300, 48, 560, 0, 1}, {0, 880, 1100, 0, 1}, {0, 48, 1050, 1, 1}, {0, 48, 60, 1, 0}} {
		r := analyzetest.Record(t)
		r.Goroutine(tachyon.Goroutine{ID: 7, CreatedBy: connectionStart, Last: analyzetest.OneSecond})
		id := uint64(8)
		for i := range uint64(50) {
			at := 20_000 * i
			r.Every(1000, at, at+15_000, 7, 0, connIdle...)
			r.Every(1000, at+16_000, at+19_000, 7, 0, connServes...)
			id += 20
			g := tachyon.Goroutine{ID: id, Parent: 7, CreatedBy: analyze.BackgroundRead, First: at + 16_000, FirstWeight: 1000, Last: at + 19_000}
			r.Every(1000, g.First, g.Last, g.ID, 0, tachyon.Frame{Func: "[IO wait]"}, analyzetest.Place("net/http.(*connReader).backgroundRead", 5))
			r.Goroutine(g)
			for range c.others {
				r.Every(1000, g.First, g.Last, g.ID-1, 0, tachyon.Frame{Func: "[sleep]"}, analyzetest.Place("main.write", 9))
				r.Goroutine(tachyon.Goroutine{ID: g.ID - 1, Parent: 7, CreatedBy: "main.handle", First: g.First, FirstWeight: 1000, Last: g.Last})
			}
		}
		r.Add(7, analyzetest.OneSecond, tachyon.Moved*tachyon.Status(c.ran), connIdle...)
		if c.stops > 0 {
			testenv.OK(t, r.W.WriteRecords(&tachyon.Records{Stops: &tachyon.Stops{Until: analyzetest.OneSecond, List: []tachyon.GoroutineStops{{ID: 7, N: uint64(c.stops)}}}}))
		}
		out := testenv.Must(Find(analyzetest.SamplesOf(t, stream.Options{}, r.Finish(tachyon.Session{Source: "native", Markers: true, Stops: c.stops > 0})), Options{}))
		testenv.FailIf(t, out.Seen != 49 || out.Low < c.low || out.Low > c.low+60 || out.High > c.high || out.High < c.high-60, "%d stops: %+v, want from %d to %d", c.stops, out.Number, c.low, c.high)
	}
}

// Goroutines that were there before may have their first sample late. They did not begin in the profile.
func TestRequestsBornBefore(t *testing.T) {
	r := analyzetest.Record(t)
	for g := uint64(1); g <= 100; g++ { // visited in turns
		at := 3000 * g
		r.Add(g, at, 0, tachyon.Frame{Func: "[select]"}, analyzetest.Place("main.wait", 3))
		r.Goroutine(tachyon.Goroutine{ID: g, CreatedBy: "main.main", First: at, Last: analyzetest.OneSecond})
	}
	id := uint64(100_000)
	for i := range uint64(200) {
		at := 5000*i + 2500
		id += 4
		r.Add(id, at, analyzetest.Running, append([]tachyon.Frame{analyzetest.Place("main.(*server).Hello", 4)}, throughRPC...)...)
		r.Goroutine(tachyon.Goroutine{ID: id, CreatedBy: "google.golang.org/grpc.(*Server).serveStreams", First: at, FirstWeight: 1000, Last: at})
	}
	out := testenv.Must(Find(r.Close(), Options{}))
	testenv.Within(t, "the least number", out.Low, 720, 800)
	testenv.Within(t, "the largest number", out.High, 800, 860)
}

// Requests of a connection that followed one another, with no sample between, are not among the slowest.
func TestSlowestNotJoined(t *testing.T) {
	r := analyzetest.Record(t)
	at := uint64(1000)
	const n = 40
	for i := range uint64(n) {
		r.Every(1000, at, at+4000, 7, 0, connIdle...)
		first := at + 5000
		g := tachyon.Goroutine{ID: 100 + i, Parent: 7, CreatedBy: analyze.BackgroundRead, First: first, FirstWeight: 1000}
		for at = first; at <= first+10_000; at += 1000 {
			r.Add(7, at, 0, connServes...)
			r.Add(g.ID, at, 0, tachyon.Frame{Func: "[IO wait]"}, analyzetest.Place("net/http.(*connReader).backgroundRead", 5))
			g.Last = at
		}
		if i == 7 { // others follow, which are too short for what reads from the connection to have a sample
			for range 60 {
				r.Add(7, at, tachyon.Moved, connServes...)
				at += 1000
			}
		}
		r.Goroutine(g)
	}
	r.Every(1000, at, at+50_000, 7, 0, connIdle...)
	testenv.Within(t, "the slowest", testenv.Must(Find(r.Close(), Options{})).Slowest[0].Time, time.Millisecond, 12*time.Millisecond)
}

// A handler that two short requests seem to have has no row: these are of another one, of which the only sample is of a function that it
// calls. A request that takes long has one, and so has the only request of a kind.
func TestRowsOfFewRequests(t *testing.T) {
	r := analyzetest.Record(t)
	at := uint64(0)
	serve := func(ms uint64, function string) {
		at = served7(r, at, ms, append([]tachyon.Frame{analyzetest.Place(function, 5)}, throughMux...)...)
	}
	for i := range 60 {
		serve(6, "main.serve")
		if i%30 == 20 {
			serve(1, "main.(*replacer).replace")
		}
	}
	serve(50, "main.report")
	r.Every(1000, at+1000, at+5000, 7, 0, connIdle...)
	r.Every(1000, 1000, 3000, 9, analyzetest.Running, append([]tachyon.Frame{analyzetest.Place("main.(*server).Hello", 4)}, throughRPC...)...)
	r.Add(9, 4000, 0, analyzetest.Wait("select"), analyzetest.Place("main.pool", 4))
	var got []string
	out := testenv.Must(Find(r.Close(), Options{}))
	for _, x := range out.Rows {
		if !x.All {
			got = append(got, x.Handler)
		}
	}
	testenv.Same(t, "requests and handlers", fmt.Sprint(out.Seen, got), "64 [main.serve main.report example.org/api._Greeter_Hello_Handler]")
}

// A request with a timeout has two goroutines: one waits, the other one has the handler. It is one request.
func TestRequestsWithTimeout(t *testing.T) {
	r := analyzetest.Record(t)
	waits := append(analyzetest.WaitFor("select", 0), analyzetest.Place("net/http.(*timeoutHandler).ServeHTTP", 3840))
	waits = append(waits, throughMux[2:]...)
	handles := append([]tachyon.Frame{analyzetest.Place("main.list", 5)}, append(throughMux[:2:2], analyzetest.Place("net/http.(*timeoutHandler).ServeHTTP.func1", 3820))...)
	for n := range uint64(10) {
		at := 20_000 * (n + 1)
		r.Every(1000, at+1000, at+10_000, 5, 0, waits...)
		r.Every(1000, at+1000, at+10_000, 100+n, analyzetest.Running, handles...)
		r.Every(1000, at+11_000, at+20_000, 5, 0, connIdle...)
	}
	r.Every(1000, 221_000, 500_000, 5, 0, connIdle...) // then all have ended
	out := testenv.Must(Find(r.Close(), Options{}))
	testenv.Same(t, "requests and rows", fmt.Sprint(out.Seen, len(out.Rows), out.Rows[1].Handler), "10 2main.list")
}

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

// What reads from the connection may have its last sample before the handler has: what the handler does then is no request. A client's
// goroutines that make connections are too short for a sample, and are no requests, as those tell that each of them starts.
func TestReadsEndBeforeHandler(t *testing.T) {
	r := analyzetest.Record(t)
	const n = 50
	for i := range uint64(n) {
		at, id := 40_000*i, 104+4*i
		r.Every(1000, at, at+20_000, 7, 0, connIdle...)
		r.Every(1000, at+21_000, at+24_000, 7, tachyon.Moved, connServes...)
		r.Add(7, at+24_500, 0, connIdle...) // late: of a moment before
		r.Every(1000, at+25_000, at+33_000, 7, tachyon.Moved, connServes...)
		r.Every(1000, at+21_000, at+29_000, id, 0, tachyon.Frame{Func: "[IO wait]"}, analyzetest.Place("net/http.(*connReader).backgroundRead", 5))
		r.Goroutine(tachyon.Goroutine{ID: id, Parent: 7, CreatedBy: analyze.BackgroundRead, First: at + 21_000, FirstWeight: 1000, Last: at + 29_000})
		by := map[uint64]string{id - 1: dialConn, id - 2: dialConn, id - 3: startDial}
		if i%4 > 0 {
			delete(by, id-3)
		}
		for other, name := range by {
			r.Every(1000, at+22_000, at+32_000, other, 0, tachyon.Frame{Func: "[select]"}, analyzetest.Place("net/http.(*persistConn).writeLoop", 5))
			r.Goroutine(tachyon.Goroutine{ID: other, Parent: 7, CreatedBy: name, First: at + 22_000, FirstWeight: 1000, Last: at + 32_000})
		}
	}
	r.Add(7, 40_000*n, 0, connIdle...)
	s := r.Close()
	out := testenv.Must(Find(s, Options{}))
	testenv.FailIf(t, out.Seen != n || out.Low > n || out.High > n+n/5, "%+v", out.Number)
	// A request may call a function again.
	testenv.Same(t, "calls", testenv.Must(Find(s, Options{Func: regexp.MustCompile(`^main\.handle$`)})).Seen, 2*n)
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
		testenv.FailIf(t, (out.High == 0) != c.atLeast || out.Seen != n || !analyzetest.Near(out.P50, c.p50, 1, time.Millisecond), "status %#x: %+v, p50 %v", c.status, out.Number, out.P50)
		// All but the first times between samples come after a request of that connection. The first sample after
		// a request is at another place than the one before: nothing is known of that time.
		more := out.Low - out.Seen
		testenv.FailIf(t, c.atLeast && (more < (unseen-1)*(n-1) || more > unseen*n), "%d requests have no sample, want %d", more, (unseen-1)*(n-1))
		want := 5 * time.Millisecond
		testenv.FailIf(t, !analyzetest.Near(max(out.P99, out.P99Below), want, 1, time.Millisecond) || (out.P99 == 0) != c.atLeast, "p99 %v, below %v, want %v", out.P99, out.P99Below, want)
	}
}
