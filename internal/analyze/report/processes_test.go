package report

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/analyze/leaks"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/requests"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// twoProcesses returns the files of two processes, whose goroutines and objects have the same numbers. Each has a
// goroutine that runs for 100 ms, one that has a label host of its own and sleeps, and 10 ms in the scheduler. Of
// the n-th process, n seconds were not seen.
func twoProcesses(t *testing.T) (list []*reader.Reader) {
	for n, s := range []tachyon.Session{
		{Host: "web-1", PID: 7, Program: "server", Service: "shop", Version: "v1.0.0"},
		{Host: "web-2", PID: 7, Program: "server", Version: "(devel)", VCS: map[string]string{"vcs.revision": "0123456789abcdef"}},
	} {
		r := analyzetest.Record(t)
		r.Every(1000, 1000, 100_000, 1, analyzetest.Running, analyzetest.Place("main.work", 5))
		r.Every(1000, 1000, 100_000, 2, 0, tachyon.Frame{Func: "[sleep]"}, analyzetest.Place("main.call", 9))
		scheduler := tachyon.Sample{Thread: 1 << 62, Interpreter: tachyon.Process, Time: analyzetest.Start + 100_000, Status: tachyon.OnCPU}
		testenv.OK(t, r.W.WriteFrames(&scheduler, []tachyon.Frame{{Func: tachyon.FuncScheduler}}))
		for id := uint64(1); id <= 2; id++ {
			r.Goroutine(tachyon.Goroutine{ID: id, FirstWeight: 1000})
		}
		r.Goroutines[1].Labels = []tachyon.LabelSpan{{Labels: map[string]string{"host": "api.example.com"}}}
		r.Goroutine(tachyon.Goroutine{ID: 1 << 62, FirstWeight: 10_000})
		s.Source, s.Markers, s.Start, s.Duration = "native", true, time.UnixMicro(analyzetest.Start+int64(n)), 100*time.Millisecond
		s.NotSeen = time.Duration(n+1) * time.Second
		list = append(list, r.Finish(s))
	}
	return list
}

// TestProcesses checks groups and selections by what processes are.
func TestProcesses(t *testing.T) {
	files := twoProcesses(t)
	const ms = time.Millisecond
	for by, want := range map[string]map[string]time.Duration{
		"host":    {"web-1": 1110 * ms, "web-2": 2110 * ms, "api.example.com": 200 * ms},
		"service": {"shop": 1210 * ms, "server": 2210 * ms},
		"version": {"v1.0.0": 1210 * ms, "0123456789ab": 2210 * ms},
		"process": {"web-1/7": 1210 * ms, "web-2/7": 2210 * ms},
		"pid":     {"7": 3420 * ms},
		"other":   {"[no label other]": 400 * ms, "[scheduler]": 20 * ms, "[not seen]": 3000 * ms},
	} {
		src := analyzetest.SamplesOf(t, Options{}.Stream(), files...).Source
		_, rows := reportOf(t, src, Options{Group: ByLabel + by, Idle: true}, profile.ReportOptions{By: profile.ByGroup})
		testenv.Same(t, "by "+by, fmt.Sprint(selfs(rows)), fmt.Sprint(want))
	}
	for _, c := range []struct {
		labels []stream.Label
		states []string
		want   time.Duration
	}{
		{[]stream.Label{{Key: "host", Value: "web-1"}}, nil, 1110 * ms},
		{[]stream.Label{{Key: "version", Value: "v1.0.0"}}, nil, 1210 * ms},
		{[]stream.Label{{Key: "version", Value: "v1.0.0"}}, []string{"sleep"}, 100 * ms},
		{[]stream.Label{{Key: "version", Value: "v1.0.0"}, {Key: "host", Value: "api.example.com"}}, nil, 100 * ms},
		{[]stream.Label{{Key: "host", Value: "web-3"}}, nil, 0},
	} {
		o := Options{}.Stream()
		o.Select = &stream.Selection{Labels: c.labels, States: c.states}
		report, _ := reportOf(t, analyzetest.SamplesOf(t, o, files...).Source, Options{Idle: true}, profile.ReportOptions{})
		testenv.Same(t, o.Select, report.Total, c.want)
	}
}

// Goroutines and objects of different processes that have the same numbers are different ones for each analysis.
func TestProcessesDoNotMix(t *testing.T) {
	const step = 100_000
	var files []*reader.Reader
	for n := range 2 {
		r := analyzetest.Record(t)
		r.Every(step, step, 100*step, 1, analyzetest.Running, analyzetest.Place("main.serve", 3), analyzetest.Place("net/http.HandlerFunc.ServeHTTP", 9), analyzetest.Place("net/http.(*conn).serve", 30))
		r.Every(step, step, 100*step, 2, 0, append(analyzetest.WaitFor("sync.Mutex.Lock", 1), analyzetest.Place("main.get", 4))...)
		r.Every(step, step, 100*step, 3, 0, append(analyzetest.WaitFor("sync.WaitGroup.Wait", 2), analyzetest.Place("main.all", 7))...)
		r.Every(step, step, 100*step, 4, 0, tachyon.Frame{Func: "[sleep]"}, analyzetest.Place("main.one", 8))
		for id := uint64(1); id <= 4; id++ {
			g := tachyon.Goroutine{ID: id, FirstWeight: step, CreatedBy: "main.main", CreatedAt: "/home/u/app/main.go:1"}
			if id == 4 && n == 1 { // of the second process only
				g.Parent = 3
			}
			r.Goroutine(g)
		}
		r.Objects = []tachyon.Object{
			{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0x5000, Static: 0x5000, Symbol: "main.mu"},
			{Number: 2, Kind: tachyon.ObjectWaitGroup, Addr: 0xc000010000},
		}
		files = append(files, r.Finish(tachyon.Session{
			Source: "native", Markers: true, Host: fmt.Sprint("web-", n), PID: 7, Start: time.UnixMicro(analyzetest.Start), Duration: 10 * time.Second, Objects: tachyon.AllObjects,
		}))
	}
	o := stream.Options{Labels: true, Objects: true}
	mutexes := ""
	for _, l := range testenv.Must(locks.Find(analyzetest.SamplesOf(t, o, files...), locks.Options{})).Locks {
		if l.Name == "main.mu" {
			mutexes += fmt.Sprintf("%v of %d; ", l.Waited, l.Goroutines)
		}
	}
	testenv.Same(t, "locks main.mu, one of each process", mutexes, "10s of 1; 10s of 1; ")
	served := testenv.Must(requests.Find(analyzetest.SamplesOf(t, o, files...), requests.Options{Slowest: 5}))
	testenv.Same(t, "unfinished requests of two processes, and for how long", fmt.Sprint(served.Unfinished, " ", served.Oldest), "2 9.9s")
	src := analyzetest.SamplesOf(t, o, files...).Source
	_, rows := reportOf(t, src, Options{Goroutines: true, Idle: true, Apart: true}, profile.ReportOptions{By: profile.ByGoroutine})
	testenv.Same(t, "goroutines, four of each process", [2]int{len(rows), src.Goroutines()}, [2]int{8, 8})
	// The second process's goroutine 3 waits for its child, the first one's has none.
	for id, want := range map[uint64]bool{3: false, 3 + 1_000_000_000_000: true} {
		w := testenv.Must(locks.FindWaits(analyzetest.SamplesOf(t, o, files...), locks.WaitOptions{Goroutine: id}))
		testenv.Same(t, fmt.Sprintf("goroutine %d: %+v", id, w), strings.Contains(fmt.Sprintf("%+v", w), "main.one"), want)
	}
}

// The end of a process, or of its files, ends no wait, and a process that begins is no growth.
func TestLeaksOfProcesses(t *testing.T) {
	for _, shift := range []uint64{0, 3_000_000, 20_000_000} { // µs between the starts of the processes
		var files []*reader.Reader
		for n := range uint64(3) {
			const step = 100_000
			from := analyzetest.Start + n*shift
			r := analyzetest.RecordFrom(t, from)
			waits := func(id, begin uint64, function string) {
				for at := begin; at <= 100*step; at += step {
					r.Add(id, n*shift+at, 0, tachyon.Frame{Func: "[chan receive]"}, analyzetest.Place(function, 90))
				}
				r.Goroutine(tachyon.Goroutine{ID: id, First: begin, FirstWeight: 1, CreatedBy: function, CreatedAt: "/home/u/app/main.go:2"})
			}
			for id := uint64(20); id < 28; id++ {
				waits(id, (id-18)*4*step, "main.stuck")
				waits(id+100, step, "main.pool")
			}
			files = append(files, r.Finish(tachyon.Session{
				Source: "native", Markers: true, Host: fmt.Sprint("web-", n), PID: 7, Start: time.UnixMicro(int64(from)), Duration: 10 * time.Second,
			}))
		}
		s := analyzetest.SamplesOf(t, Options{}.Stream(), files...)
		found := testenv.Must(leaks.Find(s))
		survey := testenv.Must(NewSurvey(s.Source, Options{}, nil))
		for _, l := range []*leaks.Leaks{found, survey.Leaks} {
			testenv.Same(t, fmt.Sprint("starts apart by µs ", shift), fmt.Sprint(len(l.Groups), l.Goroutines, l.Duration), fmt.Sprint(1, 48, 10*time.Second+2*time.Duration(shift)*time.Microsecond))
			g := l.Groups[0]
			testenv.FailIf(t, g.Function != "main.stuck" || g.End != 24 || g.Stuck != 24 || g.Unstuck != 0 || !g.Suspect || g.PerMinute < 90, "starts %d µs apart: %+v", shift, g)
		}
	}
}

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
		what          string
		o             Options
		peers, states []string
		want          map[string]time.Duration
		total         time.Duration // of the report
		shown         time.Duration // of its rows
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
			wrong := !maps.Equal(got, c.want) || !analyzetest.Near(report.Total, c.total, 0.001, time.Second) || !analyzetest.Near(shown, c.shown, 0.001, time.Second)
			testenv.FailIf(t, wrong, "apart %v of %v, %v shown; want %v of %v, %v shown\n%v", got, report.Total, shown, c.want, c.total, c.shown, rows)
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
		testenv.Same(t, apartNames[kind], len(survey.Apart[kind]) > 0, want)
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
	testenv.FailIf(t, itself != 2 || asks != 1, "%d records ask the program itself, %d others", itself, asks) // the request, and the connection on which it waits
}
