package diff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// load records 20 s of a server with 4 connections. Between two requests a client waits for pause on average, in
// µs. A tick comes every ms. A batch job has phases that last seconds, so samples are far from independent. Each request queries for 6 ms on average, and renders for 4. The first file has so many requests, and in
// each of them main.retry sleeps for wait.
func load(t testing.TB, seed, pause, wait uint64) (s *analyze.Samples, requests int) {
	r := analyzetest.Record(t)
	rng := rand.New(rand.NewPCG(seed, 11))
	const length = 20 * second
	for g := uint64(10); g < 14; g++ {
		at := uint64(0)
		spend := func(mean uint64, status tachyon.Status, frames ...tachyon.Frame) {
			frames = append(frames, analyzetest.Place("net/http.conn.serve", 7))
			end := min(length, at+mean/4+uint64(rng.ExpFloat64()*float64(mean*3/4)))
			r.Every(1000, at-at%1000+1000, end, g, status, frames...)
			at = end
		}
		serve := analyzetest.Place("net/http.serverHandler.ServeHTTP", 9)
		for at < length {
			spend(pause, 0, tachyon.Frame{Func: "[IO wait]"}, analyzetest.Place("net/http.readRequest", 3))
			spend(6000, 0, tachyon.Frame{Func: "[select]"}, analyzetest.Place("main.query", 30), serve)
			spend(4000, analyzetest.Running, analyzetest.Place("main.render", 40), serve)
			if wait > 0 {
				spend(wait, 0, tachyon.Frame{Func: "[sleep]"}, analyzetest.Place("main.retry", 44), serve)
			}
			requests++
		}
	}
	for at, i := uint64(1), 0; at < length; i++ {
		r.Add(5, at, analyzetest.Running, analyzetest.Place([]string{"main.load", "main.sort", "main.store"}[i%3], 3), analyzetest.Place("main.batch", 1))
		at = min(length, at+uint64(rng.ExpFloat64()*1_500_000))
	}
	return r.Close(), requests
}

// More load changes the time on the wall clock, but not the time of a request.
func TestDiffPerRequest(t *testing.T) {
	a, n := load(t, 1, 30_000, 0)
	b, m := load(t, 2, 15_000, 0)
	testenv.Has(t, "what is significant by the clock on the wall", fmt.Sprint(significant(diff(t, a, b, Options{}))), "[select] main.query", "main.render")
	d := diff(t, a, b, Options{Per: "request"})
	for side, want := range []int{n, m} {
		testenv.Within(t, "requests", float64(d.Requests[side]), 0.97*float64(want), 1.03*float64(want))
		testenv.Within(t, "the time of a request", d.Request[side], 9*time.Millisecond, 11*time.Millisecond)
	}
	for _, r := range parts(d) {
		testenv.Same(t, r.Name, r.Significant, r.Name == "[IO wait] net/http.readRequest")
		if want := map[string]float64{"[select] main.query": 6e6, "main.render": 4e6}[r.Name]; want > 0 && (math.Abs(r.A-want) > 0.1*want || math.Abs(r.B-want) > 0.1*want) {
			t.Errorf("%+v, want %v", r, want)
		}
	}
	c, _ := load(t, 3, 15_000, 1000)
	d = diff(t, b, c, Options{Per: "request"})
	i := slices.IndexFunc(d.Rows, func(r Row) bool { return r.Name == "[sleep] main.retry" })
	if i < 0 || !d.Rows[i].Significant || d.Rows[i].Low > 1e6 || d.Rows[i].High < 0.95e6 || d.Rows[i].A != 0 {
		t.Errorf("1 ms more for each request: %+v", d.Rows)
	}
	testenv.Fails(t, "without requests", testenv.Err(Find([]*analyze.Samples{a}, []*analyze.Samples{analyzetest.Record(t).Close()}, Options{Per: "request"})), "no samples")
}

// Two runs of the same program do not differ, by whatever they are compared.
func TestDiffAA(t *testing.T) {
	testenv.Again(t)
	testenv.Long(t)
	options := []Options{{Per: "request"}, {Per: "share"}}
	for _, by := range Bys {
		options = append(options, Options{By: by})
	}
	for i := range uint64(testenv.Times(3, 6)) {
		a, _ := load(t, 1100+2*i, 20_000, 500)
		b, _ := load(t, 1101+2*i, 20_000, 500)
		for _, o := range options {
			d := diff(t, a, b, o)
			testenv.Same(t, fmt.Sprintf("differences by %+v", o), fmt.Sprint(significant(d)), "[]")
			if o.Per == "" && min(d.Windows[0], d.Windows[1]) < minWindows {
				t.Fatalf("%d windows", d.Windows)
			}
		}
	}
}
