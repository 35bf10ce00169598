package analyze

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
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
		r := record(t)
		for at := uint64(1000); at <= 100_000; at += 1000 {
			r.add(1, at, running, place("main.work", 5))
			r.add(2, at, 0, tachyon.Frame{Func: "[sleep]"}, place("main.call", 9))
		}
		scheduler := tachyon.Sample{Thread: 1 << 62, Interpreter: tachyon.Process, Time: start + 100_000, Status: tachyon.OnCPU}
		if err := r.w.WriteFrames(&scheduler, []tachyon.Frame{{Func: tachyon.FuncScheduler}}); err != nil {
			t.Fatal(err)
		}
		for id := uint64(1); id <= 2; id++ {
			r.goroutine(tachyon.Goroutine{ID: id, FirstWeight: 1000})
		}
		r.goroutines[1].Labels = []tachyon.LabelSpan{{Labels: map[string]string{"host": "api.example.com"}}}
		r.goroutine(tachyon.Goroutine{ID: 1 << 62, FirstWeight: 10_000})
		s.Source, s.Markers, s.Start, s.Duration = "native", true, time.UnixMicro(start+int64(n)), 100*time.Millisecond
		s.NotSeen = time.Duration(n+1) * time.Second
		list = append(list, r.finish(s))
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
		src := samplesOf(t, ReportOptions{}.Stream(), files...).src
		_, rows := reportOf(t, src, ReportOptions{Group: ByLabel + by, Idle: true}, profile.ReportOptions{By: profile.ByGroup})
		got := map[string]time.Duration{}
		for _, r := range rows {
			got[r.Name] = r.Self
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("by %s: %v, want %v", by, got, want)
		}
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
		o := ReportOptions{}.Stream()
		o.Select = &stream.Selection{Labels: c.labels, States: c.states}
		report, _ := reportOf(t, samplesOf(t, o, files...).src, ReportOptions{Idle: true}, profile.ReportOptions{})
		if report.Total != c.want {
			t.Errorf("%v: %v, want %v", o.Select, report.Total, c.want)
		}
	}
}

// Goroutines and objects of different processes that have the same numbers are different ones for each analysis.
func TestProcessesDoNotMix(t *testing.T) {
	const step = 100_000
	var files []*reader.Reader
	for n := range 2 {
		r := record(t)
		for at := uint64(step); at <= 100*step; at += step {
			r.add(1, at, running, place("main.serve", 3), place("net/http.HandlerFunc.ServeHTTP", 9), place("net/http.(*conn).serve", 30))
			r.add(2, at, 0, append(waitFor("sync.Mutex.Lock", 1), place("main.get", 4))...)
			r.add(3, at, 0, append(waitFor("sync.WaitGroup.Wait", 2), place("main.all", 7))...)
			r.add(4, at, 0, tachyon.Frame{Func: "[sleep]"}, place("main.one", 8))
		}
		for id := uint64(20); id < 28; id++ { // leaked
			for at := (id - 18) * 4 * step; at <= 100*step; at += step {
				r.add(id, at, 0, tachyon.Frame{Func: "[chan receive]"}, place("main.stuck", 90))
			}
			r.goroutine(tachyon.Goroutine{ID: id, First: (id - 18) * 4 * step, FirstWeight: 1, CreatedBy: "main.leak", CreatedAt: "/home/u/app/main.go:2"})
		}
		for id := uint64(1); id <= 4; id++ {
			g := tachyon.Goroutine{ID: id, FirstWeight: step, CreatedBy: "main.main", CreatedAt: "/home/u/app/main.go:1"}
			if id == 4 && n == 1 { // of the second process only
				g.Parent = 3
			}
			r.goroutine(g)
		}
		r.objects = []tachyon.Object{
			{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0x5000, Static: 0x5000, Symbol: "main.mu"},
			{Number: 2, Kind: tachyon.ObjectWaitGroup, Addr: 0xc000010000},
		}
		files = append(files, r.finish(tachyon.Session{
			Source: "native", Markers: true, Host: fmt.Sprint("web-", n), PID: 7, Start: time.UnixMicro(start), Duration: 10 * time.Second, Objects: tachyon.AllObjects,
		}))
	}
	o := stream.Options{Labels: true, Objects: true}
	locks := must(FindLocks(samplesOf(t, o, files...), LockOptions{}))(t)
	mutexes := 0
	for _, l := range locks.Locks {
		if l.Name == "main.mu" {
			mutexes++
			if l.Waited != 10*time.Second || l.Goroutines != 1 {
				t.Errorf("a lock of two processes: %+v", l)
			}
		}
	}
	if mutexes != 2 {
		t.Errorf("%d locks main.mu, want one of each process: %+v", mutexes, locks.Locks)
	}
	requests := must(FindRequests(samplesOf(t, o, files...), RequestOptions{Slowest: 5}))(t)
	if requests.Unfinished != 2 {
		t.Errorf("requests of two processes: %+v", requests)
	}
	leaks := must(FindLeaks(samplesOf(t, o, files...)))(t)
	if len(leaks.Groups) != 1 || leaks.Groups[0].End != 16 {
		t.Errorf("leaks of two processes: %+v, want 16 goroutines", leaks.Groups)
	}
	src := samplesOf(t, o, files...).src
	_, rows := reportOf(t, src, ReportOptions{Goroutines: true, Idle: true}, profile.ReportOptions{By: profile.ByGoroutine})
	if len(rows) != 24 || src.Goroutines() != 24 {
		t.Errorf("%d goroutines, rows %v, want twelve of each process", src.Goroutines(), rows)
	}
	// The second process's goroutine 3 waits for its child, the first one's has none.
	for id, want := range map[uint64]bool{3: false, 3 + 1_000_000_000_000: true} {
		w := must(FindWaits(samplesOf(t, o, files...), WaitOptions{Goroutine: id}))(t)
		text := fmt.Sprintf("%+v", w)
		if strings.Contains(text, "main.one") != want {
			t.Errorf("goroutine %d: %s", id, text)
		}
	}
}

// The end of a process, or of its files, ends no wait, and a process that begins is no growth.
func TestLeaksOfProcesses(t *testing.T) {
	for _, shift := range []uint64{0, 3_000_000, 20_000_000} { // µs between the starts of the processes
		var files []*reader.Reader
		for n := range uint64(3) {
			const step = 100_000
			from := start + n*shift
			r := recordFrom(t, from)
			waits := func(id, begin uint64, function string) {
				for at := begin; at <= 100*step; at += step {
					r.add(id, n*shift+at, 0, tachyon.Frame{Func: "[chan receive]"}, place(function, 90))
				}
				r.goroutine(tachyon.Goroutine{ID: id, First: begin, FirstWeight: 1, CreatedBy: function, CreatedAt: "/home/u/app/main.go:2"})
			}
			for id := uint64(20); id < 28; id++ {
				waits(id, (id-18)*4*step, "main.stuck")
				waits(id+100, step, "main.pool")
			}
			files = append(files, r.finish(tachyon.Session{
				Source: "native", Markers: true, Host: fmt.Sprint("web-", n), PID: 7, Start: time.UnixMicro(int64(from)), Duration: 10 * time.Second,
			}))
		}
		s := samplesOf(t, ReportOptions{}.Stream(), files...)
		found := must(FindLeaks(s))(t)
		survey := must(NewSurvey(s.src, ReportOptions{}, nil))(t)
		for _, l := range []*Leaks{found, survey.Leaks} {
			if len(l.Groups) != 1 || l.Goroutines != 48 || l.Duration != 10*time.Second+2*time.Duration(shift)*time.Microsecond {
				t.Fatalf("starts %d µs apart: %+v", shift, l)
			}
			if g := l.Groups[0]; g.Function != "main.stuck" || g.End != 24 || g.Stuck != 24 || g.Unstuck != 0 || !g.Suspect || g.PerMinute < 90 {
				t.Errorf("starts %d µs apart: %+v", shift, g)
			}
		}
	}
}

// A group may have a few members in each process and be at rest. Many in one process do not rest, at once or one after the other.
func TestRestOfProcesses(t *testing.T) {
	for _, c := range []struct {
		name    string
		one     bool      // all files are of one process
		same    bool      // all files have the same goroutines
		members [6]uint64 // by file
		rests   bool
	}{
		{"two in each process", false, false, [6]uint64{2, 2, 2, 2, 2, 2}, true},
		{"many in one of six processes", false, false, [6]uint64{12}, false},
		{"two others in each file of one process", true, false, [6]uint64{2, 2, 2, 2, 2, 2}, false},
		{"the same two in each file of one process", true, true, [6]uint64{2, 2, 2, 2, 2, 2}, true},
	} {
		var files []*reader.Reader
		for n, members := range c.members {
			r := record(t)
			from := uint64(n) * 6_000_000
			r.add(1, from+1000, running, place("main.main", 5))
			r.add(1, from+6_000_000, running, place("main.main", 5))
			for g := range members {
				id := g
				if !c.same {
					id += 10 * uint64(n+1)
				}
				for at := from + 1000; at <= from+6_000_000; at += 1000 {
					r.add(100+id, at, 0, wait("chan receive"), place("main.watch", 5))
				}
				r.goroutine(tachyon.Goroutine{ID: 100 + id, CreatedBy: "main.main", CreatedAt: "main.go:12", FirstWeight: 1000})
			}
			begin := time.UnixMicro(start)
			s := tachyon.Session{Host: "web-1", PID: 7, Source: "native", Markers: true, Start: begin, SessionStart: begin, Duration: 6 * time.Second}
			if !c.one {
				s.PID += n
			}
			files = append(files, r.finish(s))
		}
		if _, _, rest := idleOrRest(t, samplesOf(t, stream.Options{Labels: true, Creators: true}, files...)); (rest > 0) != c.rests {
			t.Errorf("%s: goroutines rest in %d ms", c.name, rest)
		}
	}
}
