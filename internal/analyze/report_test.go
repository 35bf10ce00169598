package analyze

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// reportOf returns the rows of a report by name.
func reportOf(t *testing.T, src *stream.Source, o ReportOptions, ro profile.ReportOptions) (*profile.Report, map[string]profile.Row) {
	t.Helper()
	p := must(NewProfile(src, o))(t)
	r := must(profile.New(p, ro))(t)
	rows := map[string]profile.Row{}
	for _, row := range r.Rows {
		rows[row.Name] = row
	}
	return r, rows
}

// near reports whether two times differ by at most some part of a whole.
func near(a, b time.Duration, part float64, whole time.Duration) bool {
	return math.Abs(float64(a-b)) <= part*float64(whole)
}

// One goroutine runs for 9 s, then 128 run for 1 s: of the CPU time 7 % and 93 %, of the latency 90 % and
// 10 %. After that one waits for the disk for 2 s while another one is idle, and for 1 s there is nothing to do.
func TestLatency(t *testing.T) {
	const second = 1_000_000
	r := record(t)
	serial, parallel, disk := place("main.serial", 1), place("main.parallel", 2), place("main.read", 3)
	park := tachyon.Frame{Func: "[IO wait]"}
	step := uint64(10_000)
	for at := step; at <= 9*second; at += step {
		r.add(1, at, running, serial)
	}
	for id := uint64(2); id < 130; id++ {
		for at := 9*second + step; at <= 10*second; at += step {
			r.add(id, at, running, parallel)
		}
		r.goroutine(tachyon.Goroutine{ID: id, FirstWeight: step})
	}
	for at := 10*second + step; at <= 12*second; at += step {
		r.add(500, at, 0, park, disk)
	}
	// net/http waits for connections the whole time.
	accept := []tachyon.Frame{park, place("net.(*TCPListener).Accept", 9), place("net/http.(*Server).Serve", 9)}
	for at := uint64(500_000); at <= 13*second; at += 500_000 {
		r.add(600, at, 0, accept...)
	}
	r.goroutine(tachyon.Goroutine{ID: 1, FirstWeight: step})
	r.goroutine(tachyon.Goroutine{ID: 500, FirstWeight: step})
	r.goroutine(tachyon.Goroutine{ID: 600, FirstWeight: 500_000})
	f := r.finish(tachyon.Session{Source: "native", Markers: true, Duration: 13 * time.Second})
	src := samplesOf(t, ReportOptions{}.Stream(), f).src
	report, rows := reportOf(t, src, ReportOptions{Weight: "latency"}, profile.ReportOptions{})
	if !near(report.Total, 13*time.Second, 0.0001, 13*time.Second) {
		t.Errorf("the shares are %v together, want 13 s", report.Total)
	}
	for name, want := range map[string]time.Duration{
		"main.serial": 9 * time.Second, "main.parallel": time.Second, "[IO wait]": 2 * time.Second, FuncIdle: time.Second,
	} {
		if got := rows[name].Self; !near(got, want, 0.002, 13*time.Second) {
			t.Errorf("%s has %v, want %v", name, got, want)
		}
	}
	_, rows = reportOf(t, src, ReportOptions{Weight: "cpu"}, profile.ReportOptions{})
	if got := rows["main.parallel"].Self; !near(got, 128*time.Second, 0.001, 128*time.Second) || rows["[IO wait]"].Name != "" {
		t.Errorf("by CPU: %v", rows)
	}
}

// Groups: by label, by creator, by test and by object.
func TestGroups(t *testing.T) {
	r := record(t)
	lock := func(object int32) tachyon.Frame { return tachyon.Frame{Func: "[sync.Mutex.Lock]", Line: object} }
	for at := uint64(1000); at <= 100_000; at += 1000 {
		r.add(1, at, running|tachyon.MainThread, place("main.main", 3))
		r.add(2, at, 0, lock(1), place("main.work", 5))
		r.add(3, at, 0, lock(2), place("main.work", 5))
		r.add(4, at, running, place("example.com/x.TestFoo", 7), place("testing.tRunner", 1))
		r.add(5, at, running, place("main.lost", 3))
	}
	for id := uint64(1); id <= 5; id++ {
		g := tachyon.Goroutine{ID: id, FirstWeight: 1000}
		switch id {
		case 2, 3:
			g.CreatedBy, g.CreatedAt = "main.start", "/src/main.go:12"
			g.Labels = []tachyon.LabelSpan{{From: 0, Labels: map[string]string{"worker": fmt.Sprint(id)}}}
		case 4:
			g.CreatedBy, g.CreatedAt = "testing.(*T).Run", "/go/src/testing/testing.go:2000"
		}
		r.goroutine(g)
	}
	r.objects = []tachyon.Object{
		{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0x1000, Symbol: "main.cache", Offset: 8},
		{Number: 2, Kind: tachyon.ObjectMutex, Addr: 0xc000},
	}
	src := samplesOf(t, ReportOptions{}.Stream(), r.finish(tachyon.Session{Markers: true, Duration: 100 * time.Millisecond})).src
	for group, want := range map[string]map[string]time.Duration{
		ByLabel + "worker": {"2": 100, "3": 100, "[no label worker]": 300},
		ByEntry:            {"[main goroutine]": 100, "main.start": 200, "example.com/x.TestFoo": 100, "[creator unknown]": 100},
		ByObject:           {"[running]": 300, "sync.Mutex main.cache+8 (object 1)": 100, "sync.Mutex 0xc000 (object 2)": 100},
	} {
		report, rows := reportOf(t, src, ReportOptions{Group: group}, profile.ReportOptions{By: profile.ByGroup})
		if report.Total != 500*time.Millisecond || len(rows) != len(want) {
			t.Errorf("by %s: %v, %v", group, report.Total, rows)
		}
		for name, ms := range want {
			if got := rows[name].Self; got != ms*time.Millisecond {
				t.Errorf("by %s: %s has %v, want %d ms", group, name, got, ms)
			}
		}
		if row := rows["main.start"]; group == ByEntry && (row.File != "/src/main.go" || row.Line != 12) {
			t.Errorf("the place is %s:%d", row.File, row.Line)
		}
	}
	// Waits for different objects are one row elsewhere.
	_, rows := reportOf(t, src, ReportOptions{}, profile.ReportOptions{By: profile.ByLine})
	if row := rows["[sync.Mutex.Lock]"]; row.Self != 200*time.Millisecond || row.Line != 0 {
		t.Errorf("by line: %+v", row)
	}
}
