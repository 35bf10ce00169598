package requests

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
)

// A goroutine that works for a connection has the label of the request for which the connection was made. It outlives
// the request and is not part of it.
func TestRequestsLabelOfBackground(t *testing.T) {
	r := analyzetest.Record(t)
	for ms := uint64(1); ms <= 1000; ms++ {
		if ms <= 40 {
			r.Add(7, 1000*ms, analyzetest.Running, analyzetest.Place("main.render", 40))
		} else {
			r.Add(7, 1000*ms, analyzetest.Running, analyzetest.Place("main.other", 50))
		}
		if ms > 10 {
			r.Add(8, 1000*ms, 0, tachyon.Frame{Func: "[IO wait]"}, analyzetest.Place("bufio.(*Reader).Peek", 3), analyzetest.Place("net/http.(*persistConn).readLoop", 9))
		}
	}
	labels := map[string]string{"request": "a"}
	r.Goroutine(tachyon.Goroutine{ID: 7, Labels: []tachyon.LabelSpan{{Labels: labels}, {From: 40_001, Labels: map[string]string{}}}})
	r.Goroutine(tachyon.Goroutine{ID: 8, Labels: []tachyon.LabelSpan{{Labels: labels}}})
	out := testenv.Must(Find(r.Labelled(), Options{Label: "request"}))
	testenv.FailIf(t, out.Count != 1 || out.Max < 39*time.Millisecond || out.Max > 41*time.Millisecond || out.Idle < 980*time.Millisecond || out.Idle > 1000*time.Millisecond, "%d requests, the longest took %v, idle %v", out.Count, out.Max, out.Idle)
}

// A row has the program's own line, and the function of the library that this calls; of a wait for a lock the text of the lock, and of
// one for a far end its name: two of them are two rows, although they are at one line.
func TestRequestsOwnLine(t *testing.T) {
	r := analyzetest.Record(t)
	serve, load := analyzetest.Place("net/http.serverHandler.ServeHTTP", 9), analyzetest.Place("main.load", 21)
	library := func(function string) tachyon.Frame {
		return tachyon.Frame{File: "/root/go/pkg/mod/example.org/db@v1.2.3/x.go", Func: "example.org/db." + function, Line: 8}
	}
	lock := tachyon.Frame{File: "/home/u/app/store.go", Func: "main.put", Line: 5}
	waits := func(number int32) tachyon.Frame { return tachyon.Frame{Func: "[IO wait]", Line: number} }
	at := uint64(0)
	spend := func(ms uint64, status tachyon.Status, frames ...tachyon.Frame) {
		r.Every(1000, at+1000, at+1000*ms, 7, status, append(frames, analyzetest.Place("net/http.conn.serve", 7))...)
		at += 1000 * ms
	}
	for i := range 100 {
		spend(5, 0, waits(4), analyzetest.Place("net/http.readRequest", 3))
		spend(10, analyzetest.Running, analyzetest.Place("main.render", 40), serve)
		if i%50 == 0 {
			spend(70, 0, tachyon.Frame{Func: "[sync.Mutex.Lock]", Line: 1}, analyzetest.Place("sync.(*Mutex).Lock", 2), lock, serve)
			spend(60, 0, waits(2), load, serve)
			spend(50, 0, waits(3), load, serve)
			spend(40, 0, waits(0), load, serve)
			spend(30, 0, tachyon.Frame{Func: "[sleep]"}, analyzetest.Place("time.Sleep", 2), library("retry"), library("Get"), load, serve)
			spend(20, analyzetest.Running, analyzetest.Place("encoding/json.Marshal", 2), analyzetest.Place("main.render", 44), serve)
		}
	}
	spend(5, 0, waits(4), analyzetest.Place("net/http.readRequest", 3))
	for i, name := range []string{"tcp 10.2.3.4:5432", "unix /run/db.sock", "tcp :8080 from 10.2.3.4"} {
		r.Objects = append(r.Objects, tachyon.Object{Number: int32(2 + i), Kind: tachyon.ObjectConnection, Name: name})
	}
	const text = "package main\n\nfunc put(c *cache, n int) {\n\tn++\n\tc.mu.Lock()\n\tdefer c.mu.Unlock()\n}\n"
	out := testenv.Must(Find(r.Labelled(), Options{Slowest: 0.02, Source: func(path string) *source.File {
		if path != lock.File {
			return nil
		}
		return &source.File{Text: []byte(text)}
	}}))
	want := []Difference{
		{Name: "main.put", File: lock.File, Line: 5, State: "sync.Mutex.Lock", Time: 70 * time.Millisecond, Object: "c.mu"},
		{Name: "main.load", File: load.File, Line: 21, State: "IO wait", Time: 60 * time.Millisecond, Peer: "tcp 10.2.3.4:5432"},
		{Name: "main.load", File: load.File, Line: 21, State: "IO wait", Time: 50 * time.Millisecond, Peer: "unix /run/db.sock"},
		{Name: "main.load", File: load.File, Line: 21, State: "IO wait", Time: 40 * time.Millisecond},
		{Name: "main.load", File: load.File, Line: 21, State: "sleep", Time: 30 * time.Millisecond, In: "example.org/db.retry"},
		{Name: "main.render", Line: 44, File: analyzetest.Place("main.render", 1).File, State: "running", Time: 20 * time.Millisecond, In: "encoding/json.Marshal"},
	}
	testenv.NoDiff(t, "", cmp.Diff(want, out.Difference))
}

// The difference of slow requests says who had the cores while they waited for one: of 40 requests of 10 ms, one more takes 100 ms, in 90 of which a
// goroutine with a label runs on the only core.
func TestRanInstead(t *testing.T) {
	const ms = 1000
	r := analyzetest.Record(t)
	serve := []tachyon.Frame{analyzetest.Place("main.api.ServeHTTP", 2), analyzetest.Place("net/http.(*conn).serve", 1)}
	work := append([]tachyon.Frame{analyzetest.Place("main.work", 3)}, serve...)
	at := uint64(0)
	for id := uint64(1); id <= 40; id++ {
		r.Every(ms, at+ms, at+10*ms, id, analyzetest.Running, work...)
		r.Goroutine(tachyon.Goroutine{ID: id, FirstWeight: ms})
		at += 10 * ms
	}
	r.Every(ms, at+ms, at+90*ms, 50, analyzetest.Running, analyzetest.Place("main.report", 1))
	r.Goroutine(tachyon.Goroutine{ID: 50, FirstWeight: ms, Labels: []tachyon.LabelSpan{{Labels: map[string]string{"tenant": "bulk"}}}})
	r.Every(ms, at+ms, at+90*ms, 51, tachyon.GILRequested, append([]tachyon.Frame{{Func: tachyon.FuncRunnable}}, work...)...)
	r.Every(ms, at+91*ms, at+100*ms, 51, analyzetest.Running, work...)
	r.Goroutine(tachyon.Goroutine{ID: 51, FirstWeight: ms})
	r.Every(ms, at+101*ms, at+200*ms, 52, analyzetest.Running, analyzetest.Place("main.main", 1)) // the request ends before the session
	r.Goroutine(tachyon.Goroutine{ID: 52, FirstWeight: ms})
	file := r.Finish(tachyon.Session{Source: "native", Markers: true, GOMAXPROCS: 1, Duration: 600 * time.Millisecond})
	out := testenv.Must(Find(analyzetest.SamplesOf(t, stream.Options{Labels: true, Creators: true, Objects: true, Unselected: true}, file), Options{}))
	d := out.Difference[0]
	testenv.Same(t, "difference", fmt.Sprint(d.State, d.Time, d.Ran), "runnable90ms [{label tenant=bulk 1}]")
}

// What workers call for each job may be requests, but not what they call in assembly, such as a checksum, even if that takes longer.
func TestLikelyFunc(t *testing.T) {
	r := analyzetest.Record(t)
	worker := analyzetest.Place("main.worker", 5)
	sum := tachyon.Frame{File: "/home/u/app/sum_amd64.s", Func: "main.sum", Line: 3}
	for g := uint64(1); g <= 2; g++ {
		r.Goroutine(tachyon.Goroutine{ID: g, CreatedBy: "main.main", First: analyzetest.Start, Last: analyzetest.Start + analyzetest.OneSecond})
		for n := uint64(1); n < 1000; n++ {
			switch n % 100 {
			case 1:
				r.Add(g, n*1000, analyzetest.Running, analyzetest.Place("main.job", 30), worker)
			case 2, 3, 4:
				r.Add(g, n*1000, analyzetest.Running, sum, worker)
			default:
				r.Add(g, n*1000, 0, analyzetest.Wait("chan receive"), worker)
			}
		}
	}
	src := analyzetest.SamplesOf(t, stream.Options{Labels: true}, r.Finish(tachyon.Session{Source: "native", Markers: true})).Source
	idles := idle.New(src, nil)
	p := testenv.Must(profile.FromStream(src, profile.Detail{Key: func(s *stream.Sample) uint32 { return uint32(idles.Add(s)) }}))
	idles.Finish()
	testenv.Same(t, "likely", LikelyFunc(p, idles), "main.job")
}

// Requests that wait five times at one line, and once at another for as long. That a wait ended is known from the mark Moved, or from
// a sample elsewhere.
func TestRepeats(t *testing.T) {
	out := repeated(t, 7)
	x := out.Repeats[0]
	testenv.Same(t, "repeats", fmt.Sprintf("%d: %s:%d %s, %d waits of %d requests, %v, %v each", len(out.Repeats), x.Func, x.Line, x.State, x.Waits, x.Requests, x.Time, x.Each()),
		"1: main.name:41 IO wait, 200 waits of 40 requests, 200ms, 5 each")
	// Where nobody knows whose the goroutines of requests are, waits may be of several requests.
	testenv.Same(t, "repeats without parents", len(repeated(t, 0).Repeats), 0)
}

// repeated finds requests of goroutine 7. Those that read in the background meanwhile have a parent.
func repeated(t *testing.T, parent uint64) *Requests {
	r := analyzetest.Record(t)
	in := func(why, function string, line int32) []tachyon.Frame {
		return []tachyon.Frame{analyzetest.Wait(why), analyzetest.Place(function, line), analyzetest.Place("net/http.serverHandler.ServeHTTP", 9), analyzetest.Place("net/http.(*conn).serve", 7)}
	}
	at := uint64(1000)
	for n := range uint64(40) {
		r.Goroutine(tachyon.Goroutine{ID: 100 + n, Parent: parent, CreatedBy: analyze.BackgroundRead, First: at + 1000, Last: at + 11_000, FirstWeight: 1000})
		for range 5 {
			at += 1000
			r.Add(7, at, tachyon.Moved, in("IO wait", "main.name", 41)...)
		}
		at += 1000
		r.Add(7, at, analyzetest.Running, in("", "main.name", 42)[1:]...)
		for range 5 {
			at += 1000
			r.Add(7, at, 0, in("IO wait", "main.list", 12)...)
		}
		at += 1000
		r.Add(7, at, 0, connIdle...)
	}
	return testenv.Must(Find(r.Close(), Options{}))
}

// The lengths of requests are those of the server's log, and what the slow ones do more is the longer path.
func TestRequestsOfSessions(t *testing.T) {
	for _, name := range []string{"requests-short", "leaky-server", "requests-default-budget", "requests"}[:testenv.Brief(2, 4)] {
		t.Run(name, func(t *testing.T) {
			s := analyzetest.OpenSession(t, "../testdata/sessions", name)
			r := testenv.Must(Find(s.Samples(t), Options{Slowest: analyzetest.Slowest}))
			for _, p := range []struct {
				q   float64
				got time.Duration
			}{{0.5, r.P50}, {0.9, r.P90}, {0.99, r.P99}} {
				want := s.Logged(p.q)
				if p.got > 0 {
					testenv.Within(t, p.q, p.got, want-max(2*time.Millisecond, want/20), want+max(2*time.Millisecond, want/20))
				}
			}
			n := len(s.Truth.Requests)
			testenv.FailIf(t, 10*max(r.Count-n, n-r.Count) > n || n < r.Low-1 || r.High > 0 && n > r.High+1, "%+v requests, the log has %d", r.Number, n)
			// Requests follow at once. They are told apart, and so are calls of a function in them.
			handler := Options{Func: regexp.MustCompile(`^main\.(serve|leakyServer)\.func2$`)}
			calls := testenv.Must(Find(s.Samples(t), handler))
			testenv.FailIf(t, calls.Lower != nil || 20*max(calls.Seen-r.Seen, r.Seen-calls.Seen) > r.Seen, "%d calls of the handler, %d requests; %+v", calls.Seen, r.Seen, calls.Lower)
			list := testenv.Must(readFinder(s.Samples(t), Options{})).lengths(false)
			wrong := slices.DeleteFunc(slices.Clone(list), func(x *request) bool { return int64(x.after-x.before) >= s.Truth.Requests[0][0] })
			testenv.Within(t, "requests that take less than the shortest one", len(wrong), 0, len(list)/100)
			d := r.Difference
			testenv.FailIf(t, name != "leaky-server" && (d[0].Name != "main.longPath" || d[0].State != "sleep"), "the first difference is %+v", d)
		})
	}
}

// quantile returns a quantile of sorted values: the least one that a share q does not exceed.
func quantile(sorted []uint64, q float64) uint64 {
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(q*float64(len(sorted))))-1))]
}

// asTicksSee returns requests of known lengths in µs as ticks see them. The time between two ticks varies.
func asTicksSee(rng *rand.Rand, tick float64, lengths []uint64) (list []*request) {
	for _, length := range lengths {
		var ticks []uint64
		for at, end := 0.0, float64(length)+8*tick; at < end; at += tick * (0.6 + 0.8*rng.Float64()) {
			ticks = append(ticks, uint64(at))
		}
		// A beginning before the fourth tick.
		begin := uint64(tick) + rng.Uint64N(uint64(2*tick))
		x := &request{}
		for _, at := range ticks {
			switch {
			case at <= begin:
				x.before = at
			case at <= begin+length:
				if x.first == 0 {
					x.first = at
				}
				x.last = at
			case x.after == 0:
				x.after = at
			}
		}
		if x.first != 0 {
			list = append(list, x)
		}
	}
	return list
}

// Percentiles are much more exact than the time between two ticks, which is 10 ms.
func TestLengths(t *testing.T) {
	var rng *rand.Rand
	for name, one := range map[string]func() uint64{
		"all 23 ms":   func() uint64 { return 23_000 },
		"10 to 40 ms": func() uint64 { return 10_000 + rng.Uint64N(30_000) },
		"12 ms, and 5 % 62 ms": func() uint64 {
			if rng.IntN(20) == 0 {
				return 62_000
			}
			return 12_000
		},
		"3 s": func() uint64 { return 3_000_000 + rng.Uint64N(100_000) },
		// Of the usual ones 40 % have no sample, of the others all have one.
		"6 ms, and 2 % 56 ms": func() uint64 {
			if rng.IntN(50) == 0 {
				return 56_000
			}
			return 5_800 + rng.Uint64N(400)
		},
	} {
		rng = rand.New(rand.NewPCG(3, 4))
		var lengths []uint64
		for range 3000 {
			lengths = append(lengths, one())
		}
		l := estimate(asTicksSee(rng, 10_000, lengths))
		slices.Sort(lengths)
		for _, q := range []float64{0.25, 0.5, 0.9, 0.97, 0.99} {
			got, want := l.quantile(q, l.all), quantile(lengths, q)
			testenv.Within(t, fmt.Sprint(name, ": quantile ", q), got, want-max(2500, want/20), want+max(2500, want/20))
		}
		testenv.Within(t, name+": requests", l.all, 2850, 3180)
		testenv.Within(t, name+": µs between two samples", l.short, 8000, 14_000)
	}
}

// A goroutine makes a call again and again. It waits for 50 ms in each call, for another channel, and there is no sample between.
// Another one makes it once, and waits all the time.
func TestCallsAtOnce(t *testing.T) {
	work := Options{Func: regexp.MustCompile(`^main\.work$`)}
	for name, c := range map[string]struct {
		o      Options
		caller string
		serial bool
	}{
		"worker": {work, "main.worker", true},
		"HTTP/1": {Options{}, "net/http.(*conn).serve", true}, // of Go 1.20, whose goroutines have no parents
		"HTTP/2": {Options{}, "net/http.(*http2serverConn).runHandler", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := analyzetest.Record(t)
			call := analyzetest.Place("main.work", 12)
			if c.o.Func == nil {
				call = analyzetest.Place("net/http.serverHandler.ServeHTTP", 12)
			}
			wait := func(object int32) []tachyon.Frame {
				return []tachyon.Frame{{Func: "[select]", Line: object}, analyzetest.Place("main.wait", 1), call, analyzetest.Place(c.caller, 7)}
			}
			object := int32(1)
			for at := uint64(1000); at < 20*analyzetest.OneSecond; at += 1000 {
				status := tachyon.Status(0)
				if at%50_000 == 0 {
					status = tachyon.Moved
					object++
				}
				r.Add(10, at, status, wait(object)...)
			}
			r.Add(10, 20*analyzetest.OneSecond, analyzetest.Running, analyzetest.Place(c.caller, 8))
			r.Every(1000, 1000, 5*analyzetest.OneSecond-1, 11, 0, wait(0)...)
			r.Add(11, 5*analyzetest.OneSecond, analyzetest.Running, analyzetest.Place(c.caller, 8))
			out := testenv.Must(Find(r.Labelled(), c.o))
			longest := out.P99
			if c.serial {
				longest = out.P99Below
			}
			testenv.FailIf(t, out.Count != 2 || longest < 19*analyze.Micros(analyzetest.OneSecond), "%d calls, the longest takes %v", out.Count, longest)
			l := out.Lower
			testenv.FailIf(t, l != nil != c.serial || l != nil && ((l.P50-analyze.Micros(50_000)).Abs() > analyze.Micros(1000) || (l.Max-5*analyze.Micros(analyzetest.OneSecond)).Abs() > analyze.Micros(2000)), "without calls that may be several: %+v", l)
		})
	}
}
