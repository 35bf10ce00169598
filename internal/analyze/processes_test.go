package analyze

import (
	"fmt"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/reader"
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
