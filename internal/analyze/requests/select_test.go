package requests

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
)

// Requests count that have a sample that is selected. What they did is that of all their samples.
func TestSelectRequests(t *testing.T) {
	testenv.Again(t)
	s, log, _ := serve(t)
	f := s.Source
	_, file := f.File()
	find := func(sel stream.Selection, since, until string, o Options) *Requests {
		t.Helper()
		src := testenv.Must(stream.New([]stream.File{file}, analyzetest.Selection(t, sel, since, until)))
		r := testenv.Must(Find(analyze.NewSamples("x", src), o))
		return r
	}
	all := find(stream.Selection{}, "", "", Options{})
	slow := 0
	for _, length := range log {
		if length > 40_000 {
			slow++
		}
	}
	sleeping := find(stream.Selection{States: []string{"sleep"}}, "", "", Options{})
	testenv.Within(t, "requests that sleep", sleeping.Count, slow-1, slow+1)
	if d := sleeping.Median; d.States["sleep"] < 38*time.Millisecond || d.States["running"] < time.Millisecond {
		t.Errorf("those that sleep do %v", d.States)
	}
	one := find(stream.Selection{Goroutines: []uint64{10}}, "", "", Options{})
	testenv.Within(t, "requests of one goroutine of 8", 8*one.Count, all.Count/2, 2*all.Count)
	// A label selects one request, and its values are requests.
	label := stream.Selection{Labels: []stream.Label{{Key: "request", Value: "150"}}}
	for what, o := range map[string]Options{"invocation": {}, "label": {Label: "request"}} {
		if r := find(label, "", "", o); r.Count != 1 || r.Slowest[0].Labels["request"] != "150" || (r.Slowest[0].Time-analyze.Micros(log[150])).Abs() > 2*time.Millisecond {
			t.Errorf("%s: %d requests, %+v", what, r.Count, r.Slowest)
		}
	}
	half := find(stream.Selection{}, "5s", "15s", Options{})
	testenv.Within(t, "requests in half of the time", half.Count, all.Count*9/20, all.Count*11/20)
	for _, x := range half.Slowest {
		if x.Start > 10*analyzetest.OneSecond {
			t.Errorf("a request begins %d µs after the selected time begins", x.Start)
		}
	}
}

// The slowest requests can be selected: then all they did is yielded, and nothing else.
func TestPickSlowest(t *testing.T) {
	testenv.Again(t)
	s, log, _ := serve(t)
	_, file := s.Source.File()
	slow := slices.Clone(log)
	slices.Sort(slow)
	for name, o := range map[string]Options{
		"default": {}, "by function": {Func: regexp.MustCompile(`^main\.handle$`)}, "by label": {Label: "request"},
	} {
		r := testenv.Must(FindSlow(analyze.NewSamples("x", testenv.Must(stream.New([]stream.File{file}, stream.Options{Labels: true, Unselected: true}))), o))
		src := testenv.Must(stream.New([]stream.File{file}, stream.Options{Select: &stream.Selection{Pick: r.Pick}}))
		for range 2 { // each reading begins anew
			time, own := map[uint64]uint64{}, uint64(0)
			for x := range testenv.All(t, src.Samples()) {
				time[x.Goroutine] += uint64(x.Wall.Microseconds())
				if x.Goroutine < 18 {
					own += uint64(x.Wall.Microseconds())
				}
				if x.Goroutine >= 1000 && x.Goroutine < 1300 {
					t.Fatalf("%s: a leaked goroutine is yielded", name)
				}
			}
			want := uint64(0)
			for _, length := range slow[len(slow)-r.Count:] {
				want += length
			}
			if own < want*95/100 || own > want*105/100 || r.Of < len(log)*9/10 || r.Count > len(log)/90 {
				t.Errorf("%s: %d of %d requests have %d µs, want %d", name, r.Count, r.Of, own, want)
			}
			if children := len(time) > 8; children != (o.Label != "") {
				t.Errorf("%s: children are yielded: %v", name, children)
			}
		}
	}
	testenv.Fails(t, "without requests", testenv.Err(FindSlow(s, Options{Func: regexp.MustCompile("nothing")})), "nothing")
}
