package report

import (
	"fmt"
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
		for id := uint64(20); id < 28; id++ { // leaked
			r.Every(step, (id-18)*4*step, 100*step, id, 0, tachyon.Frame{Func: "[chan receive]"}, analyzetest.Place("main.stuck", 90))
			r.Goroutine(tachyon.Goroutine{ID: id, First: (id - 18) * 4 * step, FirstWeight: 1, CreatedBy: "main.leak", CreatedAt: "/home/u/app/main.go:2"})
		}
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
	testenv.Same(t, "unfinished requests of two processes", served.Unfinished, 2)
	growth := testenv.Must(leaks.Find(analyzetest.SamplesOf(t, o, files...)))
	testenv.Same(t, "groups of two processes, goroutines", [2]int{len(growth.Groups), growth.Groups[0].End}, [2]int{1, 16})
	src := analyzetest.SamplesOf(t, o, files...).Source
	_, rows := reportOf(t, src, Options{Goroutines: true, Idle: true, Apart: true}, profile.ReportOptions{By: profile.ByGoroutine})
	testenv.Same(t, "goroutines, twelve of each process", [2]int{len(rows), src.Goroutines()}, [2]int{24, 24})
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
			if g := l.Groups[0]; g.Function != "main.stuck" || g.End != 24 || g.Stuck != 24 || g.Unstuck != 0 || !g.Suspect || g.PerMinute < 90 {
				t.Errorf("starts %d µs apart: %+v", shift, g)
			}
		}
	}
}
