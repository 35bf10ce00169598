package requests

import (
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// The difference of slow requests says who had the cores while they waited for one: of 40 requests of 10 ms, one more takes 100 ms, in 90 of which a
// goroutine with a label runs on the only core.
func TestRanInstead(t *testing.T) {
	const ms = 1000
	r := analyzetest.Record(t)
	serve := []tachyon.Frame{analyzetest.Place("main.api.ServeHTTP", 2), analyzetest.Place("net/http.(*conn).serve", 1)}
	work := append([]tachyon.Frame{analyzetest.Place("main.work", 3)}, serve...)
	at := uint64(0)
	goroutine := func(id uint64, labels map[string]string) {
		g := tachyon.Goroutine{ID: id, FirstWeight: ms}
		if labels != nil {
			g.Labels = []tachyon.LabelSpan{{Labels: labels}}
		}
		r.Goroutine(g)
	}
	for id := uint64(1); id <= 40; id++ {
		r.Every(ms, at+ms, at+10*ms, id, analyzetest.Running, work...)
		goroutine(id, nil)
		at += 10 * ms
	}
	r.Every(ms, at+ms, at+90*ms, 50, analyzetest.Running, analyzetest.Place("main.report", 1))
	goroutine(50, map[string]string{"tenant": "bulk"})
	r.Every(ms, at+ms, at+90*ms, 51, tachyon.GILRequested, append([]tachyon.Frame{{Func: tachyon.FuncRunnable}}, work...)...)
	r.Every(ms, at+91*ms, at+100*ms, 51, analyzetest.Running, work...)
	goroutine(51, nil)
	r.Every(ms, at+101*ms, at+200*ms, 52, analyzetest.Running, analyzetest.Place("main.main", 1)) // the request ends before the session
	goroutine(52, nil)
	file := r.Finish(tachyon.Session{Source: "native", Markers: true, GOMAXPROCS: 1, Duration: 600 * time.Millisecond})
	out := analyzetest.Must(Find(analyzetest.SamplesOf(t, stream.Options{Labels: true, Creators: true, Objects: true, Unselected: true}, file), Options{}))(t)
	if len(out.Difference) == 0 {
		t.Fatalf("%+v", out)
	}
	d := out.Difference[0]
	if want := []Ran{{"label tenant=bulk", 1}}; d.State != "runnable" || d.Time != 90*time.Millisecond || !slices.Equal(d.Ran, want) {
		t.Errorf("%+v, want %v", d, want)
	}
}
