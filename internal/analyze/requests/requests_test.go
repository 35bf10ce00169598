package requests

import (
	"fmt"
	"testing"
	"time"

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
