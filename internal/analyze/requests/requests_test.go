package requests

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
)

// serve returns what recordServer has recorded, which several tests read.
func serve(t testing.TB) (s *analyze.Samples, log []uint64, short int) {
	t.Helper()
	served.once.Do(func() { served.file, served.log, served.short = recordServer(t) })
	return analyzetest.SamplesOf(t, stream.Options{Labels: true}, served.file), slices.Clone(served.log), served.short
}

var served struct {
	once  sync.Once
	file  *reader.Reader
	log   []uint64
	short int
}

// recordServer records 20 s of a server with 8 connections that are kept open, beside 300 leaked goroutines in
// handlers that never end. A tick comes every ms. One request of a hundred sleeps for 40 ms more. Each has
// a label with its number, and starts a goroutine that has it too. It returns the lengths of the requests
// in µs and their number that are shorter than two ticks.
func recordServer(t testing.TB) (f *reader.Reader, log []uint64, short int) {
	r := analyzetest.Record(t)
	rng := rand.New(rand.NewPCG(5, 6))
	conn := []tachyon.Frame{analyzetest.Place("net/http.serverHandler.ServeHTTP", 9), analyzetest.Place("net/http.conn.serve", 7)}
	stack := func(frames ...tachyon.Frame) []tachyon.Frame { return append(frames, conn...) }
	type step struct {
		length uint64
		status tachyon.Status
		frames []tachyon.Frame
	}
	const length = 20 * analyzetest.OneSecond
	child := uint64(10_000)
	for g := uint64(10); g < 18; g++ {
		info := tachyon.Goroutine{ID: g, Last: length, FirstWeight: 1}
		r.Add(g, 1, 0, tachyon.Frame{Func: "[IO wait]"}, analyzetest.Place("net/http.readRequest", 3), conn[1])
		at, sampled := uint64(1), uint64(1)
		do := func(x step) {
			for end := at + x.length; at < end; at = min(end, at-at%1000+1000) {
				if at > sampled && at%1000 == 0 {
					r.Add(g, at, x.status, x.frames...)
					sampled = at
				}
			}
		}
		for at < length {
			do(step{5000 + rng.Uint64N(20_000), 0, []tachyon.Frame{{Func: "[IO wait]"}, analyzetest.Place("net/http.readRequest", 3), conn[1]}})
			began := at
			n := strconv.Itoa(len(log))
			info.Labels = append(info.Labels, tachyon.LabelSpan{From: at, Labels: map[string]string{"request": n}})
			if rng.IntN(20) == 0 { // from the cache
				do(step{300, analyzetest.Running, stack(analyzetest.Place("main.cached", 4), analyzetest.Place("main.handle", 11))})
			} else {
				do(step{2000 + rng.Uint64N(2000), analyzetest.Running, stack(analyzetest.Place("main.parse", 4), analyzetest.Place("main.handle", 12))})
				wait := 5000 + rng.Uint64N(6000)
				from := at
				do(step{wait, 0, stack(tachyon.Frame{Func: "[select]"}, analyzetest.Place("main.query", 30), analyzetest.Place("main.handle", 13))})
				child++
				r.Goroutine(tachyon.Goroutine{ID: child, Parent: g, First: from, Last: at, FirstWeight: 1000,
					Labels: []tachyon.LabelSpan{{From: from, Labels: map[string]string{"request": n}}}})
				r.Every(1000, from-from%1000+1000, at-1, child, 0, tachyon.Frame{Func: "[IO wait]"}, analyzetest.Place("main.fetch", 40))
				if len(log)%100 == 50 {
					do(step{40_000, 0, stack(tachyon.Frame{Func: "[sleep]"}, analyzetest.Place("time.Sleep", 1), analyzetest.Place("main.backoff", 55), analyzetest.Place("main.handle", 14))})
				}
			}
			if at < length {
				log = append(log, at-began)
				if at-began < 2000 {
					short++
				}
			}
			info.Labels = append(info.Labels, tachyon.LabelSpan{From: at, Labels: map[string]string{}})
		}
		r.Goroutine(info)
	}
	for g := uint64(1000); g < 1300; g++ {
		r.Every(250_000, 1000, length, g, 0, stack(tachyon.Frame{Func: "[chan receive]"}, analyzetest.Place("main.stuck", 90))...)
	}
	return r.Finish(tachyon.Session{Source: "native", Markers: true}), log, short
}

// quantile returns a quantile of sorted values: the least one that a share q does not exceed.
func quantile(sorted []uint64, q float64) uint64 {
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(q*float64(len(sorted))))-1))]
}

// checkPicked selects the slowest requests: then all they did is yielded, and nothing else. log has the lengths of all, the slowest last.
func checkPicked(t *testing.T, name string, file stream.File, log []uint64, o Options) {
	t.Helper()
	r := testenv.Must(FindSlow(analyze.NewSamples("x", testenv.Must(stream.New([]stream.File{file}, stream.Options{Labels: true, Unselected: true}))), o))
	src := testenv.Must(stream.New([]stream.File{file}, stream.Options{Select: &stream.Selection{Pick: r.Pick}}))
	for range 2 { // each reading begins anew
		time, own := map[uint64]uint64{}, uint64(0)
		for x := range testenv.All(t, src.Samples()) {
			time[x.Goroutine] += uint64(x.Wall.Microseconds())
			if x.Goroutine < 18 {
				own += uint64(x.Wall.Microseconds())
			}
			testenv.FailIf(t, x.Goroutine >= 1000 && x.Goroutine < 1300, "%s: a leaked goroutine is yielded", name)
		}
		want := uint64(0)
		for _, length := range log[len(log)-r.Count:] {
			want += length
		}
		testenv.Within(t, name+": µs of the slowest requests", own, want*95/100, want*105/100)
		testenv.FailIf(t, r.Of < len(log)*9/10 || r.Count > len(log)/90, "%s: %d of %d requests", name, r.Count, r.Of)
		testenv.Same(t, name+": children are yielded", len(time) > 8, o.Label != "")
	}
}

func TestRequests(t *testing.T) {
	testenv.Again(t)
	testenv.Long(t)
	s, log, short := serve(t)
	_, file := s.Source.File()
	slices.Sort(log)
	for name, o := range map[string]Options{
		"default": {}, "by function": {Func: regexp.MustCompile(`^main\.handle$`)}, "by label": {Label: "request"},
	} {
		checkPicked(t, name, file, log, o)
		r := testenv.Must(Find(s, o))
		for _, p := range []struct {
			q    float64
			got  time.Duration
			what string
		}{{0.5, r.P50, "p50"}, {0.9, r.P90, "p90"}, {0.99, r.P99, "p99"}, {1, r.Max, "max"}} {
			want := analyze.Micros(quantile(log, p.q))
			testenv.Within(t, name+": "+p.what, p.got, want-max(2*time.Millisecond, want/20), want+max(2*time.Millisecond, want/20))
		}
		// Calls of less than a tick mostly have no sample.
		testenv.Within(t, name+": requests", r.Count, len(log)-short-10, len(log)+10)
		testenv.Within(t, name+": short ones", r.TooShort, 1, short)
		testenv.FailIf(t, name == "default" && r.Unfinished < 300 || r.Unfinished > 310, "%s: %d requests are not finished", name, r.Unfinished)
		testenv.Same(t, name+": the first difference", fmt.Sprint(r.Difference[0].Name, r.Difference[0].State, r.Difference[0].Time.Round(4*time.Millisecond)), "main.backoffsleep40ms")
		slow, median := r.Slow.States["sleep"], r.Median.States["sleep"]
		testenv.FailIf(t, slow < 38*time.Millisecond || median != 0, "%s: slow ones sleep %v, median ones %v", name, slow, median)
		n := 0
		for _, b := range r.Histogram {
			n += b.Count
		}
		testenv.Same(t, name+": in the histogram, slowest", fmt.Sprint(n, len(r.Slowest), r.Slowest[0].Time), fmt.Sprint(r.Count, 10, r.Max))
		x := r.Slowest[0]
		testenv.FailIf(t, x.Labels["request"] == "" || strings.Count(x.Timeline, ".") < 20 || !strings.HasPrefix(x.Timeline, "R"), "%s: the slowest is %+v", name, x)
	}
	testenv.Fails(t, "without requests", testenv.Err(FindSlow(s, Options{Func: regexp.MustCompile("nothing")})), "nothing")
	none := testenv.Must(Find(s, Options{Func: regexp.MustCompile("nothing")}))
	testenv.Same(t, "calls of nothing", [2]int{none.Count, len(none.Slowest)}, [2]int{})
}

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
	if out.Count != 1 || out.Max < 39*time.Millisecond || out.Max > 41*time.Millisecond || out.Idle < 980*time.Millisecond || out.Idle > 1000*time.Millisecond {
		t.Errorf("%d requests, the longest took %v, idle %v", out.Count, out.Max, out.Idle)
	}
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
