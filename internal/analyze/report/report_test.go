package report

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/requests"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// reportOf returns the rows of a report by name.
func reportOf(t *testing.T, src *stream.Source, o Options, ro profile.ReportOptions) (*profile.Report, map[string]profile.Row) {
	r := testenv.Must(profile.New(testenv.Must(NewProfile(src, o)), ro))
	rows := map[string]profile.Row{}
	for _, row := range r.Rows {
		rows[row.Name] = row
	}
	return r, rows
}

// selfs are the self times of rows.
func selfs(rows map[string]profile.Row) map[string]time.Duration {
	out := map[string]time.Duration{}
	for name, row := range rows {
		out[name] = row.Self
	}
	return out
}

// nearly compares self times of rows, as exact as 10 ms.
func nearly(t *testing.T, rows map[string]profile.Row, want map[string]time.Duration) {
	t.Helper()
	for name, want := range want {
		testenv.FailIf(t, !analyzetest.Near(rows[name].Self, want, 0.01, time.Second), "%s has %v, want %v", name, rows[name].Self, want)
	}
}

// Four goroutines wait for a lock whose holder reads: all of the time is that of the reading. Then nothing else waits for a second.
func TestLatencyOfLock(t *testing.T) {
	r := analyzetest.Record(t)
	for id := uint64(1); id <= 4; id++ {
		r.Every(10_000, 10_000, 3_000_000, id, 0, analyzetest.Wait("sync.Mutex.Lock"), analyzetest.Place("sync.(*Mutex).Lock", 1), analyzetest.Place("main.get", 1))
	}
	r.Every(10_000, 10_000, 2_000_000, 5, 0, analyzetest.Wait("IO wait"), analyzetest.Place("main.read", 1), analyzetest.Place("main.get", 2))
	for id := uint64(1); id <= 5; id++ {
		r.Goroutine(tachyon.Goroutine{ID: id, FirstWeight: 10_000})
	}
	src := analyzetest.SamplesOf(t, Options{}.Stream(), r.Finish(tachyon.Session{Source: "native", Markers: true, Duration: 3 * time.Second})).Source
	_, rows := reportOf(t, src, Options{Weight: "latency"}, profile.ReportOptions{})
	nearly(t, rows, map[string]time.Duration{"[IO wait]": 2 * time.Second, "[sync.Mutex.Lock]": time.Second})
}

// One goroutine runs for 9 s, then 128 run for 1 s: of the CPU time 7 % and 93 %, of the latency 90 % and
// 10 %. After that one waits for the disk for 2 s while another one is idle, and for 1 s there is nothing to do.
func TestLatency(t *testing.T) {
	const second = 1_000_000
	r := analyzetest.Record(t)
	serial, parallel, disk := analyzetest.Place("main.serial", 1), analyzetest.Place("main.parallel", 2), analyzetest.Place("main.read", 3)
	park := tachyon.Frame{Func: "[IO wait]"}
	step := uint64(10_000)
	r.Every(step, step, 9*second, 1, analyzetest.Running, serial)
	for id := uint64(2); id < 130; id++ {
		r.Every(step, 9*second+step, 10*second, id, analyzetest.Running, parallel)
		r.Goroutine(tachyon.Goroutine{ID: id, FirstWeight: step})
	}
	r.Every(step, 10*second+step, 12*second, 500, 0, park, disk)
	// net/http waits for connections the whole time.
	accept := []tachyon.Frame{park, analyzetest.Place("net.(*TCPListener).Accept", 9), analyzetest.Place("net/http.(*Server).Serve", 9)}
	r.Every(500_000, 500_000, 13*second, 600, 0, accept...)
	r.Goroutine(tachyon.Goroutine{ID: 1, FirstWeight: step})
	r.Goroutine(tachyon.Goroutine{ID: 500, FirstWeight: step})
	r.Goroutine(tachyon.Goroutine{ID: 600, FirstWeight: 500_000})
	f := r.Finish(tachyon.Session{Source: "native", Markers: true, Duration: 13 * time.Second})
	src := analyzetest.SamplesOf(t, Options{}.Stream(), f).Source
	report, rows := reportOf(t, src, Options{Weight: "latency"}, profile.ReportOptions{})
	testenv.Same(t, "the shares together", report.Total.Round(2*time.Millisecond), 13*time.Second)
	nearly(t, rows, map[string]time.Duration{"main.serial": 9 * time.Second, "main.parallel": time.Second, "[IO wait]": 2 * time.Second, funcIdle: time.Second})
	_, rows = reportOf(t, src, Options{Weight: "cpu"}, profile.ReportOptions{})
	got := rows["main.parallel"].Self
	testenv.FailIf(t, !analyzetest.Near(got, 128*time.Second, 0.001, 128*time.Second) || rows["[IO wait]"].Name != "", "by CPU: %v", rows)
}

// Groups: by label, by creator, by test and by object.
func TestGroups(t *testing.T) {
	r := analyzetest.Record(t)
	lock := func(object int32) tachyon.Frame { return tachyon.Frame{Func: "[sync.Mutex.Lock]", Line: object} }
	r.Every(1000, 1000, 100_000, 1, analyzetest.Running|tachyon.MainThread, analyzetest.Place("main.main", 3))
	r.Every(1000, 1000, 100_000, 2, 0, lock(1), analyzetest.Place("main.work", 5))
	r.Every(1000, 1000, 100_000, 3, 0, lock(2), analyzetest.Place("main.work", 5))
	r.Every(1000, 1000, 100_000, 4, analyzetest.Running, analyzetest.Place("example.com/x.TestFoo", 7), analyzetest.Place("testing.tRunner", 1))
	r.Every(1000, 1000, 100_000, 5, analyzetest.Running, analyzetest.Place("main.lost", 3))
	for id := uint64(1); id <= 5; id++ {
		g := tachyon.Goroutine{ID: id, FirstWeight: 1000}
		switch id {
		case 2, 3:
			g.CreatedBy, g.CreatedAt = "main.start", "/src/main.go:12"
			g.Labels = []tachyon.LabelSpan{{From: 0, Labels: map[string]string{"worker": map[uint64]string{2: "2"}[id]}}}
		case 4:
			g.CreatedBy, g.CreatedAt = "testing.(*T).Run", "/go/src/testing/testing.go:2000"
		}
		r.Goroutine(g)
	}
	r.Objects = []tachyon.Object{
		{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0x1000, Symbol: "main.cache", Offset: 8},
		{Number: 2, Kind: tachyon.ObjectMutex, Addr: 0xc000},
	}
	src := analyzetest.SamplesOf(t, Options{}.Stream(), r.Finish(tachyon.Session{Markers: true, Duration: 100 * time.Millisecond})).Source
	const ms = time.Millisecond
	for group, want := range map[string]map[string]time.Duration{
		ByLabel + "worker": {"2": 100 * ms, "[empty]": 100 * ms, "[no label worker]": 300 * ms},
		ByEntry:            {"[main goroutine]": 100 * ms, "main.start": 200 * ms, "example.com/x.TestFoo": 100 * ms, "[creator unknown]": 100 * ms},
		ByObject:           {"[running]": 300 * ms, "sync.Mutex main.cache+8 (object 1)": 100 * ms, "sync.Mutex 0xc000 (object 2)": 100 * ms},
	} {
		_, rows := reportOf(t, src, Options{Group: group}, profile.ReportOptions{By: profile.ByGroup})
		testenv.Same(t, "by "+group, fmt.Sprint(selfs(rows)), fmt.Sprint(want))
		row := rows["main.start"]
		testenv.FailIf(t, group == ByEntry && (row.File != "/src/main.go" || row.Line != 12), "the place is %s:%d", row.File, row.Line)
	}
	// Waits for different objects are one row elsewhere.
	_, rows := reportOf(t, src, Options{}, profile.ReportOptions{By: profile.ByLine})
	row := rows["[sync.Mutex.Lock]"]
	testenv.Same(t, "by line", fmt.Sprint(row.Self, row.Line), "200ms 0")
}

// A survey has what Find has, unless the profile is too large to answer at once.
func TestSurveyRequests(t *testing.T) {
	s := analyzetest.OpenSession(t, "../testdata/sessions", "requests")
	want := testenv.Must(requests.Find(s.Samples(t), requests.Options{}))
	survey := testenv.Must(NewSurvey(s.Samples(t).Source, Options{}, nil))
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
		case less == 0 && (got == nil || got.Count != want.Count || got.Lengths != want.Lengths):
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// Waits that are idle are no locks, nor are those of the garbage collector, and those for an answer. A channel that is used as a semaphore is.
func TestLocksLeaveOut(t *testing.T) {
	r := analyzetest.Record(t)
	r.Objects = []tachyon.Object{
		{Number: 3, Kind: tachyon.ObjectSemaphore, Symbol: "runtime.work", Offset: 516},
		{Number: 5, Kind: tachyon.ObjectChannel, Capacity: 2},
		{Number: 6, Kind: tachyon.ObjectMutex},
	}
	at := func(why string, object int32, stack ...tachyon.Frame) []tachyon.Frame {
		return append([]tachyon.Frame{{Func: "[" + why + "]", Line: object}}, stack...)
	}
	loop := analyzetest.Place("example.org/raft.(*Raft).runSnapshots", 50)
	for g, stack := range [][]tachyon.Frame{
		at("select", 0, loop),
		at("select", 0, loop),
		at("select", 0, analyzetest.Place("net/http.(*persistConn).roundTrip", 1), analyzetest.Place("net/http.Get", 1), analyzetest.Place("main.ask", 5), analyzetest.Place("main.load", 9)),
		at("semacquire", 3, analyzetest.Place("runtime.semacquire", 1), analyzetest.Place("runtime.gcStart", 1), analyzetest.Place("runtime.mallocgc", 1), analyzetest.Place("main.work", 9)),
		at("semacquire", 0, analyzetest.Place("runtime.semacquire", 1), analyzetest.Place("runtime.gcMarkDone", 1), analyzetest.Place("main.work", 9)),
		at("chan send", 5, analyzetest.Place("main.acquire", 3), analyzetest.Place("main.work", 9)),
		at("sync.Mutex.Lock", 6, analyzetest.Place("sync.(*Mutex).Lock", 1), analyzetest.Place("main.get", 3), analyzetest.Place("main.work", 9)),
	} {
		id := uint64(10 + g)
		bit := tachyon.Status(0)
		if g > 1 {
			bit = tachyon.Moved
		}
		r.Every(1000, 1000, 6_000_000, id, bit, stack...)
		r.Goroutine(tachyon.Goroutine{ID: id, CreatedBy: "main.main", CreatedAt: "main.go:12", First: analyzetest.Start, Last: analyzetest.Start + 6_000_000})
	}
	file := r.Finish(tachyon.Session{Source: "native", Markers: true})
	const want = "sync.Mutex 6s of 1, chan 6s of 1, 12s idle"
	text := func(l *locks.Locks) (out string) {
		for _, x := range l.Locks {
			out += fmt.Sprintf("%s %v of %d, ", x.Kind, x.Waited, x.Goroutines)
		}
		return out + fmt.Sprintf("%v idle", l.Idle)
	}
	o := stream.Options{Labels: true, Creators: true, Objects: true}
	found := testenv.Must(locks.Find(analyzetest.SamplesOf(t, o, file), locks.Options{Channels: true}))
	testenv.Same(t, "locks", text(found), want)
	survey := testenv.Must(NewSurvey(analyzetest.SamplesOf(t, o, file).Source, Options{}, nil))
	testenv.Same(t, "of a survey", text(testenv.Must(survey.Locks())), want)
}

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
	nothing := analyzetest.SamplesOf(t, stream.Options{}, analyzetest.Record(t).Finish(tachyon.Session{})).Source
	testenv.Prints(t, "samples and far ends", "0 0", len(slices.Collect(testenv.All(t, nothing.Samples()))), len(locks.FarOfPackages(nothing, nil)))
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
			testenv.FailIf(t, !stream.IsPeer(name, ask) || slices.Contains(want, ""), "%q is not %q", name, ask)
		}
	}
}
