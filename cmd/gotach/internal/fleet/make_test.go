//go:build peers

package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gotach/profiler/cmd/gotach/internal/push"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// A process of the fleet writes a file a minute, for minutes minutes.
type process struct {
	service, version, host string
	pid                    int
}

var processes = []process{
	{"shop", "v1.4.0", "web-1", 101}, {"shop", "v1.4.0", "web-2", 102}, {"shop", "v1.5.0", "web-3", 103}, {"stock", "v0.9.1", "db-1", 201},
}

const (
	minutes = 3
	traceID = "0af7651916cd43dd8448eb211c80319c" // of a request to the shop, which asks the stock
)

var start = time.Date(2026, 2, 3, 4, 0, 13, 0, time.UTC)

// writeFleet writes the files of all processes below a directory.
func writeFleet(t *testing.T, dir string) {
	t.Helper()
	for _, p := range processes {
		for part := 1; part <= minutes; part++ {
			p.write(t, p.path(dir, part), part)
		}
	}
}

// path returns the path of a file, given the directory of all.
func (p process) path(dir string, part int) string {
	return filepath.Join(dir, p.host, fmt.Sprintf("%s.%d.tach", p.service, part))
}

// write writes a file. Its workers have 100 ticks of 10 ms in each second, in which they calculate, wait for the cache's lock and wait for
// the network. Version 1.5.0 calculates more, and in each minute leaves goroutines behind that wait forever.
func (p process) write(t *testing.T, path string, part int) {
	testenv.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	begin := start.Add(time.Duration(part-1) * time.Minute)
	from := uint64(begin.UnixMicro())
	w := testenv.Must(writer.Create(path, writer.Options{Start: from, Interval: 10_000}))
	session := tachyon.Session{
		Program: p.service, Service: p.service, ServiceVersion: p.version, Host: p.host, PID: p.pid, Start: begin, Duration: time.Minute,
		SessionStart: start, Part: part, Source: "native", Rate: 100, Markers: true, GoVersion: "go1.26.0", GOOS: "linux", GOARCH: "amd64",
	}
	frame := func(function, file string, line int32) uint32 {
		return w.Intern(tachyon.Frame{Func: function, File: file, Line: line})
	}
	entry := frame("main."+map[string]string{"shop": "serve", "stock": "answer"}[p.service], "/src/"+p.service+"/main.go", 40)
	work := frame("main."+map[string]string{"shop": "price", "stock": "count"}[p.service], "/src/"+p.service+"/work.go", 12)
	format, get := frame("encoding/json.Marshal", "/go/encoding/json/encode.go", 171), frame("main.(*Cache).Get", "/src/"+p.service+"/cache.go", 7)
	lock, io := w.Intern(tachyon.Frame{Func: "[sync.Mutex.Lock]", Line: 1}), w.Intern(tachyon.Frame{Func: "[IO wait]"})
	mutex, read := frame("sync.(*Mutex).Lock", "/go/sync/mutex.go", 46), frame("net.(*conn).Read", "/go/net/net.go", 196)
	send, notify := w.Intern(tachyon.Frame{Func: "[chan send]"}), frame("main.notify", "/src/shop/notify.go", 25)
	testenv.OK(t, w.WriteRecords(&tachyon.Records{Objects: []tachyon.Object{{Number: 1, Kind: tachyon.ObjectMutex, Static: 1, Symbol: "main.cache"}}}))

	busy := 2 // of 10 ticks
	if p.version == "v1.5.0" {
		busy = 4
	}
	for id := uint64(10); id < 14; id++ {
		info := tachyon.Goroutine{ID: id, CreatedBy: "main.main", CreatedAt: "/src/" + p.service + "/main.go:22"}
		labels := map[string]string{"route": "/search"}
		if id == 10 && part == 2 && (p.host == "web-1" || p.host == "db-1") { // a traced request for a second
			span := map[string]string{"web-1": "b7ad6b7169203331", "db-1": "00f067aa0ba902b7"}[p.host]
			info.Labels = []tachyon.LabelSpan{
				{From: 5_000_000, Labels: map[string]string{"route": "/search", "trace_id": traceID, "span_id": span}}, {From: 6_000_000, Labels: labels},
			}
		} else if id%2 == 0 {
			info.Labels = []tachyon.LabelSpan{{Labels: labels}}
		}
		testenv.OK(t, w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{info}}))
		for tick := range 6000 {
			s := tachyon.Sample{Thread: id, Time: from + uint64(tick+1)*10_000}
			switch step := tick % 10; {
			case step < busy:
				s.Status, s.Stack = tachyon.HasGIL|tachyon.OnCPU, []uint32{work, entry}
			case step == 5:
				s.Status, s.Stack = tachyon.HasGIL|tachyon.OnCPU, []uint32{format, entry}
			case step == 6 || step == 7 && p.service == "shop":
				s.Stack = []uint32{lock, mutex, get, entry}
			default:
				s.Stack = []uint32{io, read, entry}
			}
			testenv.OK(t, w.Write(&s))
		}
	}
	if p.version == "v1.5.0" {
		for n := range uint64(5 * part) {
			id, first := 1000+n, uint64(1_000_000)
			if n < uint64(5*(part-1)) { // of the minutes before
				first = 0
			}
			testenv.OK(t, w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{{ID: id, CreatedBy: "main.serve", CreatedAt: "/src/shop/main.go:47"}}}))
			for at := first; at <= 60_000_000; at += 1_000_000 {
				testenv.OK(t, w.Write(&tachyon.Sample{Thread: id, Time: from + max(at, 10_000), Stack: []uint32{send, notify}}))
			}
		}
	}
	session.NotSeen = 1500 * time.Microsecond
	testenv.OK(t, w.AddMetadata(tachyon.KindSession, session))
	testenv.OK(t, w.Close())
}

// reports returns the self times of the files of writeFleet, wall and CPU, by service and what a row is.
func reports(t *testing.T, dir string, by profile.By) map[string][2]int64 {
	sums := map[string][2]int64{}
	for _, p := range processes {
		for part := 1; part <= minutes; part++ {
			in := testenv.Closes(t, testenv.Must(formats.Open(p.path(dir, part), formats.Options{})))
			r := testenv.Must(in.Report(profile.ReportOptions{By: by}))
			for _, row := range r.Rows {
				if row.Self != 0 {
					key := p.service + " " + row.Name
					sums[key] = [2]int64{sums[key][0] + int64(row.Self), sums[key][1] + int64(row.SelfCPU)}
				}
			}
		}
	}
	return sums
}

// send sends all files below a directory to a target.
func send(t *testing.T, dir, to string) {
	t.Helper()
	target, name, key, err := push.Open(to, push.TargetOptions{})
	testenv.OK(t, err)
	defer target.Close()
	p := testenv.Must(push.New(push.Options{Dir: dir, Target: target, Name: name, Key: key, Once: true}))
	testenv.OK(t, p.Run(context.Background()))
}
