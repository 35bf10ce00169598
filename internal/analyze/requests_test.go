package analyze

import (
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// serve returns what recordServer has recorded, which several tests read.
func serve(t testing.TB) (s *Samples, log []uint64, short int) {
	t.Helper()
	served.once.Do(func() { served.file, served.log, served.short = recordServer(t) })
	return samplesOf(t, stream.Options{Labels: true}, served.file), slices.Clone(served.log), served.short
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
	r := record(t)
	rng := rand.New(rand.NewPCG(5, 6))
	conn := []tachyon.Frame{place("net/http.serverHandler.ServeHTTP", 9), place("net/http.conn.serve", 7)}
	stack := func(frames ...tachyon.Frame) []tachyon.Frame { return append(frames, conn...) }
	type step struct {
		length uint64
		status tachyon.Status
		frames []tachyon.Frame
	}
	const length = 20 * second
	child := uint64(10_000)
	for g := uint64(10); g < 18; g++ {
		info := tachyon.Goroutine{ID: g, Last: length, FirstWeight: 1}
		r.add(g, 1, 0, tachyon.Frame{Func: "[IO wait]"}, place("net/http.readRequest", 3), conn[1])
		at, sampled := uint64(1), uint64(1)
		do := func(x step) {
			for end := at + x.length; at < end; at = min(end, at-at%1000+1000) {
				if at > sampled && at%1000 == 0 {
					r.add(g, at, x.status, x.frames...)
					sampled = at
				}
			}
		}
		for at < length {
			do(step{5000 + rng.Uint64N(20_000), 0, []tachyon.Frame{{Func: "[IO wait]"}, place("net/http.readRequest", 3), conn[1]}})
			began := at
			n := strconv.Itoa(len(log))
			info.Labels = append(info.Labels, tachyon.LabelSpan{From: at, Labels: map[string]string{"request": n}})
			if rng.IntN(20) == 0 { // from the cache
				do(step{300, running, stack(place("main.cached", 4), place("main.handle", 11))})
			} else {
				do(step{2000 + rng.Uint64N(2000), running, stack(place("main.parse", 4), place("main.handle", 12))})
				wait := 5000 + rng.Uint64N(6000)
				from := at
				do(step{wait, 0, stack(tachyon.Frame{Func: "[select]"}, place("main.query", 30), place("main.handle", 13))})
				child++
				r.goroutine(tachyon.Goroutine{ID: child, Parent: g, First: from, Last: at, FirstWeight: 1000,
					Labels: []tachyon.LabelSpan{{From: from, Labels: map[string]string{"request": n}}}})
				for tick := from - from%1000 + 1000; tick < at; tick += 1000 {
					r.add(child, tick, 0, tachyon.Frame{Func: "[IO wait]"}, place("main.fetch", 40))
				}
				if len(log)%100 == 50 {
					do(step{40_000, 0, stack(tachyon.Frame{Func: "[sleep]"}, place("time.Sleep", 1), place("main.backoff", 55), place("main.handle", 14))})
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
		r.goroutine(info)
	}
	for g := uint64(1000); g < 1300; g++ {
		for at := uint64(1000); at <= length; at += 50_000 {
			r.add(g, at, 0, stack(tachyon.Frame{Func: "[chan receive]"}, place("main.stuck", 90))...)
		}
	}
	return r.finish(tachyon.Session{Source: "native", Markers: true}), log, short
}

// quantile returns a quantile of sorted values: the least one that a share q does not exceed.
func quantile(sorted []uint64, q float64) uint64 {
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(q*float64(len(sorted))))-1))]
}

func TestRequests(t *testing.T) {
	s, log, short := serve(t)
	slices.Sort(log)
	for name, o := range map[string]RequestOptions{
		"default": {}, "by function": {Func: regexp.MustCompile(`^main\.handle$`)}, "by label": {Label: "request"},
	} {
		r := must(FindRequests(s, o))(t)
		t.Logf("%s: %+v", name, r)
		for _, p := range []struct {
			q    float64
			got  time.Duration
			what string
		}{{0.5, r.P50, "p50"}, {0.9, r.P90, "p90"}, {0.99, r.P99, "p99"}, {1, r.Max, "max"}} {
			want := micros(quantile(log, p.q))
			if off := (p.got - want).Abs(); off > 2*time.Millisecond && off > want/20 {
				t.Errorf("%s: %s is %v, want %v", name, p.what, p.got, want)
			}
		}
		// Calls of less than a tick mostly have no sample.
		if r.Count < len(log)-short-10 || r.Count > len(log)+10 || r.TooShort == 0 || r.TooShort > short {
			t.Errorf("%s: %d requests, %d of them short; want %d, %d", name, r.Count, r.TooShort, len(log), short)
		}
		if name == "default" && r.Unfinished < 300 || r.Unfinished > 310 {
			t.Errorf("%s: %d requests are not finished", name, r.Unfinished)
		}
		if d := r.Difference[0]; d.Name != "main.backoff" || d.State != "sleep" || (d.Time-40*time.Millisecond).Abs() > 2*time.Millisecond {
			t.Errorf("%s: the first difference is %+v", name, d)
		}
		if slow, median := r.Slow.States["sleep"], r.Median.States["sleep"]; slow < 38*time.Millisecond || median != 0 {
			t.Errorf("%s: slow ones sleep %v, median ones %v", name, slow, median)
		}
		n := 0
		for _, b := range r.Histogram {
			n += b.Count
		}
		if n != r.Count || len(r.Slowest) != 10 || r.Slowest[0].Time != r.Max {
			t.Errorf("%s: %d in the histogram, slowest %+v", name, n, r.Slowest)
		}
		if x := r.Slowest[0]; x.Labels["request"] == "" || strings.Count(x.Timeline, ".") < 20 || !strings.HasPrefix(x.Timeline, "R") {
			t.Errorf("%s: the slowest is %+v", name, x)
		}
	}
	if r, err := FindRequests(s, RequestOptions{Func: regexp.MustCompile("nothing")}); err != nil || r.Count != 0 || len(r.Slowest) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A goroutine that works for a connection has the label of the request for which the connection was made. It outlives
// the request and is not part of it.
func TestRequestsLabelOfBackground(t *testing.T) {
	r := record(t)
	for ms := uint64(1); ms <= 1000; ms++ {
		if ms <= 40 {
			r.add(7, 1000*ms, running, place("main.render", 40))
		} else {
			r.add(7, 1000*ms, running, place("main.other", 50))
		}
		if ms > 10 {
			r.add(8, 1000*ms, 0, tachyon.Frame{Func: "[IO wait]"}, place("bufio.(*Reader).Peek", 3), place("net/http.(*persistConn).readLoop", 9))
		}
	}
	labels := map[string]string{"request": "a"}
	r.goroutine(tachyon.Goroutine{ID: 7, Labels: []tachyon.LabelSpan{{Labels: labels}, {From: 40_001, Labels: map[string]string{}}}})
	r.goroutine(tachyon.Goroutine{ID: 8, Labels: []tachyon.LabelSpan{{Labels: labels}}})
	s := r.labelled()
	out := must(FindRequests(s, RequestOptions{Label: "request"}))(t)
	if out.Count != 1 || out.Max < 39*time.Millisecond || out.Max > 41*time.Millisecond || out.Idle < 980*time.Millisecond || out.Idle > 1000*time.Millisecond {
		t.Errorf("%d requests, the longest took %v, idle %v", out.Count, out.Max, out.Idle)
	}
}

// A row has the program's own line, and the function of the library that this calls; of a wait for a lock the text of the lock.
func TestRequestsOwnLine(t *testing.T) {
	r := record(t)
	serve := place("net/http.serverHandler.ServeHTTP", 9)
	library := func(function string) tachyon.Frame {
		return tachyon.Frame{File: "/root/go/pkg/mod/example.org/db@v1.2.3/x.go", Func: "example.org/db." + function, Line: 8}
	}
	lock := tachyon.Frame{File: "/home/u/app/store.go", Func: "main.put", Line: 5}
	at := uint64(0)
	spend := func(ms int, status tachyon.Status, frames ...tachyon.Frame) {
		for range ms {
			at += 1000
			r.add(7, at, status, append(frames, place("net/http.conn.serve", 7))...)
		}
	}
	for i := range 100 {
		spend(5, 0, tachyon.Frame{Func: "[IO wait]"}, place("net/http.readRequest", 3))
		spend(10, running, place("main.render", 40), serve)
		if i%50 == 0 {
			spend(40, 0, tachyon.Frame{Func: "[sync.Mutex.Lock]", Line: 3}, place("sync.(*Mutex).Lock", 2), lock, serve)
			spend(30, 0, tachyon.Frame{Func: "[sleep]"}, place("time.Sleep", 2), library("retry"), library("Get"), place("main.load", 21), serve)
			spend(20, running, place("encoding/json.Marshal", 2), place("main.render", 44), serve)
		}
	}
	spend(5, 0, tachyon.Frame{Func: "[IO wait]"}, place("net/http.readRequest", 3))
	const text = "package main\n\nfunc put(c *cache, n int) {\n\tn++\n\tc.mu.Lock()\n\tdefer c.mu.Unlock()\n}\n"
	out := must(FindRequests(r.close(), RequestOptions{Slowest: 0.02, Source: func(path string) *source.File {
		if path != lock.File {
			return nil
		}
		return &source.File{Text: []byte(text)}
	}}))(t)
	want := []RequestDifference{
		{Name: "main.put", File: lock.File, Line: 5, State: "sync.Mutex.Lock", Time: 40 * time.Millisecond, Object: "c.mu"},
		{Name: "main.load", File: place("main.load", 1).File, Line: 21, State: "sleep", Time: 30 * time.Millisecond, In: "example.org/db.retry"},
		{Name: "main.render", Line: 44, File: place("main.render", 1).File, State: "running", Time: 20 * time.Millisecond, In: "encoding/json.Marshal"},
	}
	if !slices.Equal(out.Difference, want) {
		t.Errorf("%+v, want %+v", out.Difference, want)
	}
}

// A survey has what FindRequests has, unless the profile is too large to answer at once.
func TestSurveyRequests(t *testing.T) {
	s, _, _ := serve(t)
	want := must(FindRequests(s, RequestOptions{}))(t)
	survey := must(NewSurvey(s.src, ReportOptions{}, nil))(t)
	defer func(samples int64, goroutines int) {
		mostSurveyed, mostSurveyedGoroutines = samples, goroutines
	}(mostSurveyed, mostSurveyedGoroutines)
	for less := range 3 {
		mostSurveyed, mostSurveyedGoroutines = survey.Profile.Samples, survey.Profile.Goroutines
		switch less {
		case 1:
			mostSurveyed--
		case 2:
			mostSurveyedGoroutines--
		}
		got, err := survey.FindRequests()
		switch {
		case err != nil || !survey.Requests:
			t.Fatalf("%v, requests: %v", err, survey.Requests)
		case less > 0 && got != nil:
			t.Errorf("%+v of a profile that is too large", got)
		case less == 0 && (got == nil || got.Count != want.Count || got.RequestLengths != want.RequestLengths):
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
