package report

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// peerRecording has goroutines in [IO wait], 100 ms each: two for connections, one accepted, one of which nothing is known. Another one sleeps.
func peerRecording(t *testing.T) *analyzetest.Recording {
	r := analyzetest.Record(t)
	for i, leaf := range []tachyon.Frame{
		{Func: "[IO wait]", Line: 1}, {Func: "[IO wait]", Line: 2}, {Func: "[IO wait]", Line: 3}, {Func: "[IO wait]"}, {Func: "[sleep]"},
	} {
		r.Every(1000, 1000, 100_000, uint64(i)+1, 0, leaf, analyzetest.Place("main.query", int32(i)))
		r.Goroutine(tachyon.Goroutine{ID: uint64(i) + 1, FirstWeight: 1000})
	}
	r.Objects = []tachyon.Object{
		{Number: 1, Kind: tachyon.ObjectConnection, Name: "tcp 10.2.3.4:5432"},
		{Number: 2, Kind: tachyon.ObjectConnection, Name: "tcp 10.2.3.40:5432"},
		{Number: 3, Kind: tachyon.ObjectConnection, Name: "tcp :8080 from 10.2.3.4"},
	}
	return r
}

// Far ends are rows, and select waits.
func TestFarEndRows(t *testing.T) {
	f := peerRecording(t).Finish(tachyon.Session{Markers: true, Duration: 100 * time.Millisecond})
	const all = 100 * time.Millisecond
	for _, c := range []struct {
		by    string
		peers []string
		want  map[string]time.Duration
	}{
		{ByPeer, nil, map[string]time.Duration{"tcp 10.2.3.4:5432": all, "tcp 10.2.3.40:5432": all, "tcp :8080 from 10.2.3.4": all, "[IO wait]": all, "[sleep]": all}},
		{ByObject, []string{":5432"}, map[string]time.Duration{"connection tcp 10.2.3.4:5432 (object 1)": all, "connection tcp 10.2.3.40:5432 (object 2)": all}},
		{ByPeer, []string{"10.2.3.4"}, map[string]time.Duration{"tcp 10.2.3.4:5432": all, "tcp :8080 from 10.2.3.4": all}},
		{ByPeer, []string{":8080", "10.2.3.40"}, map[string]time.Duration{"tcp 10.2.3.40:5432": all, "tcp :8080 from 10.2.3.4": all}},
		{ByPeer, []string{"10.2.3.5"}, map[string]time.Duration{}},
	} {
		o := Options{}.Stream()
		o.Select = &stream.Selection{Peers: c.peers}
		src := analyzetest.SamplesOf(t, o, f).Source
		_, rows := reportOf(t, src, Options{Group: c.by, Idle: true}, profile.ReportOptions{By: profile.ByGroup})
		testenv.Same(t, fmt.Sprint("by ", c.by, " of ", c.peers), fmt.Sprint(selfs(rows)), fmt.Sprint(c.want))
	}
	// Who does not ask for objects gets no numbers, also if far ends select.
	src := analyzetest.SamplesOf(t, stream.Options{Select: &stream.Selection{Peers: []string{"10.2.3.4"}}}, f).Source
	sum := time.Duration(0)
	for s := range testenv.All(t, src.Samples()) {
		testenv.Same(t, "the leaf", *leafOf(src, s.Stack), tachyon.Frame{Func: "[IO wait]"})
		sum += s.Wall
	}
	testenv.Same(t, "sum", sum, 2*all)
}

// TestIsPeer asks for far ends in all the ways that are accepted, and for others.
func TestIsPeer(t *testing.T) {
	for name, want := range map[string][]string{
		"tcp 10.2.3.4:5432":         {"tcp 10.2.3.4:5432", "10.2.3.4:5432", "10.2.3.4", ":5432"},
		"tcp [::1]:53":              {"tcp [::1]:53", "[::1]:53", "[::1]", ":53"},
		"tcp :8080 from 10.2.3.4":   {"tcp :8080 from 10.2.3.4", ":8080", "10.2.3.4"},
		"tcp :8080":                 {"tcp :8080", ":8080"},
		"unix /run/db.sock":         {"unix /run/db.sock", "/run/db.sock"},
		"unix /run/x from a client": {"/run/x", "a client"},
		"pipe 123":                  {"pipe 123", "123"},
		"file /dev/tty":             {"file /dev/tty", "/dev/tty"},
		"eventfd":                   {"eventfd"},
	} {
		for _, ask := range []string{"", "tcp", "10.2.3", "0.2.3.4", "432", ":543", "10.2.3.4:543", "8080", "/run", "from"} {
			testenv.Same(t, name+" is "+ask, stream.IsPeer(name, ask), false)
		}
		for _, ask := range want {
			if !stream.IsPeer(name, ask) || slices.Contains(want, "") {
				t.Errorf("%q is not %q", name, ask)
			}
		}
	}
}
