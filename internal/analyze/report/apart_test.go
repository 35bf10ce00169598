package report

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// apartRecording is a server that asks itself: a load generator and a request wait for it through net/http. The load generator also works
// and sleeps. Another goroutine asks a database, a handler serves a profile, and goroutines leak. More are peers to which net/http has connections.
func apartRecording(t *testing.T, more ...string) *analyzetest.Recording {
	r := analyzetest.Record(t)
	wait := func(why string, object int32) tachyon.Frame {
		return tachyon.Frame{Func: "[" + why + "]", Line: object}
	}
	at := analyzetest.Place
	const end = 6 * analyzetest.OneSecond
	for object, name := range append([]string{"tcp :8080", "tcp :8080 from 127.0.0.1", "tcp 127.0.0.1:8080", "tcp 10.0.0.9:5432"}, more...) {
		r.Objects = append(r.Objects, tachyon.Object{Number: int32(object) + 1, Kind: tachyon.ObjectConnection, Name: name})
	}
	add := func(id uint64, from, to uint64, status tachyon.Status, stack ...tachyon.Frame) {
		r.Every(1000, from+1000, to, id, status|tachyon.Moved, stack...)
	}
	ask := []tachyon.Frame{at("net/http.(*persistConn).roundTrip", 1), at("net/http.(*Client).Do", 1)}
	add(1, 0, end/2, 0, append(append([]tachyon.Frame{wait("select", 0)}, ask...), at("main.get", 1), at("main.load", 2))...)
	add(1, end/2, end*3/4, analyzetest.Running, at("main.body", 1), at("main.load", 2))
	add(1, end*3/4, end, 0, wait("sleep", 0), at("time.Sleep", 1), at("main.load", 3))
	add(2, 0, end, 0, append(append([]tachyon.Frame{wait("select", 0)}, ask...), at("main.api.ServeHTTP", 1), at("net/http.(*conn).serve", 1))...)
	add(3, 0, end, 0, wait("IO wait", 3), at("net/http.(*persistConn).readLoop", 1))
	add(4, 0, end, 0, wait("IO wait", 4), at("net.(*conn).Read", 1), at("main.query", 1), at("main.refresh", 2))
	add(5, 0, end, 0, wait("sleep", 0), at("time.Sleep", 1), at("net/http/pprof.Profile", 1), at("net/http.(*conn).serve", 1))
	for i := range more {
		add(6+uint64(i), 0, end, 0, wait("IO wait", int32(5+i)), at("net/http.(*persistConn).readLoop", 1))
	}
	for id := uint64(1); id < 6+uint64(len(more)); id++ {
		r.Goroutine(tachyon.Goroutine{ID: id, FirstWeight: 1000, First: analyzetest.Start, Last: analyzetest.Start + end})
	}
	for id := uint64(100); id < 112; id++ {
		begin := (id - 100) * 400_000
		r.Every(1000, begin+1000, end, id, 0, wait("chan receive", 0), at("main.leak", 1))
		r.Goroutine(tachyon.Goroutine{ID: id, FirstWeight: 1000, CreatedBy: "main.start", CreatedAt: "/home/u/app/main.go:3", First: analyzetest.Start + begin, Last: analyzetest.Start + end})
	}
	return r
}

// What leaks, what asks the program's own server and what serves profiles is set apart, in all weights. A request that asks the program itself
// is not, nor is a client if net/http also asks others.
func TestApart(t *testing.T) {
	const leaked = 12*6*time.Second - 66*400*time.Millisecond
	session := tachyon.Session{Source: "native", Markers: true, Duration: 6 * time.Second}
	all := map[string]time.Duration{apartNames[Leaked]: leaked, apartNames[Client]: 6 * time.Second, apartNames[Debug]: 6 * time.Second}
	noClient := maps.Clone(all)
	delete(noClient, apartNames[Client])
	for _, c := range []struct {
		what   string
		o      Options
		peers  []string
		states []string
		want   map[string]time.Duration
		total  time.Duration // of the report
		shown  time.Duration // of its rows
	}{
		{"wall", Options{}, nil, nil, all, leaked + 6*5*time.Second, 12 * time.Second},
		{"with it", Options{Apart: true}, nil, nil, nil, leaked + 6*5*time.Second, leaked + 6*4*time.Second},
		{"a second server", Options{}, []string{"tcp 10.0.0.10:80"}, nil, noClient, leaked + 6*6*time.Second, 18 * time.Second},
		{"a connection to another port of its own", Options{}, []string{"tcp 127.0.0.1:9090"}, nil, noClient, leaked + 6*6*time.Second, 18 * time.Second},
		{"cpu", Options{Weight: "cpu"}, nil, nil, map[string]time.Duration{apartNames[Client]: 1500 * time.Millisecond}, 1500 * time.Millisecond, 0},
		{"latency", Options{Weight: "latency"}, nil, nil, nil, 6 * time.Second, 6 * time.Second},
		{"by state", Options{}, nil, []string{"chan receive"}, nil, leaked, leaked},
	} {
		t.Run(c.what, func(t *testing.T) {
			o := c.o.Stream()
			if c.states != nil {
				o.Select = &stream.Selection{States: c.states}
			}
			report, rows := reportOf(t, analyzetest.SamplesOf(t, o, apartRecording(t, c.peers...).Finish(session)).Source, c.o, profile.ReportOptions{By: profile.ByBlocked})
			got := map[string]time.Duration{}
			for _, x := range report.Apart {
				got[x.What] = x.Wall
			}
			if c.o.Apart { // it is said anyway
				got = nil
			}
			shown := time.Duration(0)
			for i := range report.Profile.Records {
				shown += report.Profile.Records[i].Wall
			}
			if !maps.Equal(got, c.want) || !analyzetest.Near(report.Total, c.total, 0.001, time.Second) || !analyzetest.Near(shown, c.shown, 0.001, time.Second) {
				t.Errorf("apart %v of %v, %v shown; want %v of %v, %v shown\n%v", got, report.Total, shown, c.want, c.total, c.shown, rows)
			}
		})
	}
}

// A survey has the records that are set apart, and a program that asks itself in a request asks nobody else. Who waits for connections asks nobody.
func TestApartOfSurvey(t *testing.T) {
	recording := apartRecording(t)
	recording.Every(1000, 1000, 6*analyzetest.OneSecond, 50, tachyon.Moved, tachyon.Frame{Func: "[IO wait]", Line: 3}, analyzetest.Place("net.(*TCPListener).Accept", 1), analyzetest.Place("main.listen", 1))
	src := analyzetest.SamplesOf(t, Options{}.Stream(), recording.Finish(tachyon.Session{Source: "native", Markers: true, Duration: 6 * time.Second})).Source
	survey := testenv.Must(NewSurvey(src, Options{Idle: true}, nil))
	for kind, want := range []bool{Leaked: true, Client: true, Debug: true} {
		if got := len(survey.Apart[kind]) > 0; got != want {
			t.Errorf("%s: %v", apartNames[kind], survey.Apart[kind])
		}
	}
	tell := survey.Facts()
	asks, itself := 0, 0
	for _, r := range survey.Profile.Records {
		if of := tell(&r); of.Itself {
			itself++
		} else if of.Peer != "" && !strings.Contains(of.Peer, "8080") { // not one who waits for connections
			asks++
		}
	}
	if itself != 2 || asks != 1 { // the request, and the connection on which it waits
		t.Errorf("%d records ask the program itself, %d others", itself, asks)
	}
}
