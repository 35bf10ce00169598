package push

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"

	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"
	"google.golang.org/protobuf/proto"
)

// A receiver is an OTLP receiver. It recognises profiles that come twice by their ids. It needs no network: it is a
// transport, so a test can run in the time of testing/synctest.
type receiver struct {
	// fault may answer a request itself; then it returns true. It is called before the profiles are kept.
	fault func(w http.ResponseWriter, r *http.Request, d *pb.ProfilesData) bool

	mu       sync.Mutex
	requests int
	repeats  int
	got      map[[3]string]time.Duration // by process and start, type, and id: the sum
}

// received writes the files of some processes. It returns them, a receiver, and options to push them to it.
func received(t testing.TB, processes, files int) (dir string, r *receiver, o Options) {
	t.Helper()
	dir, r = t.TempDir(), &receiver{got: map[[3]string]time.Duration{}}
	for n := range processes {
		p := process{pid: 100 + n, program: "shop", labels: 3}
		for part := range files {
			p.file(t, filepath.Join(dir, fmt.Sprintf("p%d", n), fmt.Sprintf("app.%d.tach", part+1)), part+1, true)
		}
	}
	return dir, r, r.options(t, dir)
}

// options returns options for a directory. The receiver is without a network.
func (r *receiver) options(t testing.TB, dir string) Options {
	m := NewMetrics()
	target, name, key, err := Open("otlp+http://receiver:4318", TargetOptions{Metrics: m})
	must(err)
	target.(*otlpTarget).client.Transport = r
	return Options{Dir: dir, Target: target, Name: name, Key: key, Once: true, Metrics: m, Backoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond, Tries: 1000, GiveUp: 1000 * time.Hour}
}

// serve starts a server on this computer until the test ends, and lets options send to it.
func (r *receiver) serve(t testing.TB, o *Options) (url string) {
	s := httptest.NewUnstartedServer(r)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	s.Start()
	t.Cleanup(s.Close)
	var err error
	o.Target, o.Name, o.Key, err = Open("otlp+"+s.URL, TargetOptions{Metrics: o.Metrics})
	must(err)
	t.Cleanup(func() { o.Target.Close() })
	return "otlp+" + s.URL
}

// RoundTrip implements http.RoundTripper.
func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	resp := w.Result()
	resp.Request = req
	return resp, nil
}

// check compares what the receiver has with the profiles in a directory.
func (r *receiver) check(t testing.TB, want sums, repeats int) {
	t.Helper()
	diff := cmp.Diff(want, r.sums())
	testenv.FailIf(t, diff != "" || r.repeats != repeats, "%d profiles came twice, want %d; what they have is not that of the files:\n%s", r.repeats, repeats, diff)
}

// ServeHTTP takes a request.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost || req.URL.Path != otlpPath || req.Header.Get("Content-Type") != "application/x-protobuf" {
		panic(fmt.Sprintf("%s %s of %s", req.Method, req.URL, req.Header.Get("Content-Type")))
	}
	var d pb.ProfilesData
	must(proto.Unmarshal(testenv.Must(io.ReadAll(testenv.Must(gzip.NewReader(req.Body)))), &d))
	r.mu.Lock()
	r.requests++
	fault := r.fault
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-protobuf")
	if fault == nil || !fault(w, req, &d) {
		r.keep(&d)
	}
}

// set sets fault while a server runs.
func (r *receiver) set(fault func(http.ResponseWriter, *http.Request, *pb.ProfilesData) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = fault
}

// keep keeps the profiles of a request.
func (r *receiver) keep(d *pb.ProfilesData) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range d.ResourceProfiles[0].ScopeProfiles[0].Profiles {
		if len(p.ProfileId) != 16 {
			panic("a profile without an id")
		}
		key := [3]string{origin(d, p), d.Dictionary.StringTable[p.SampleType.TypeStrindex], string(p.ProfileId)}
		sum := time.Duration(0)
		for _, s := range p.Samples {
			sum += time.Duration(s.Values[0])
		}
		if before, ok := r.got[key]; ok {
			if r.repeats++; before != sum {
				panic(fmt.Sprintf("profile %q came with %v and with %v", key, before, sum))
			}
		}
		r.got[key] = sum
	}
}

func origin(d *pb.ProfilesData, p *pb.Profile) string {
	pid := int64(0)
	for _, a := range d.ResourceProfiles[0].Resource.Attributes {
		if a.Key == "process.pid" {
			pid = a.Value.GetIntValue()
		}
	}
	return fmt.Sprintf("%d at %d", pid, p.TimeUnixNano/1000)
}

// sums are wall time and CPU time, by process and start.
type sums map[string][2]time.Duration

// sums returns what the receiver has, each profile once.
func (r *receiver) sums() sums {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := sums{}
	for key, v := range r.got {
		sum := out[key[0]]
		if key[1] == "wall" {
			sum[0] += v
		} else {
			sum[1] += v
		}
		out[key[0]] = sum
	}
	return out
}

// profiled returns what the profiles in a directory have.
func profiled(t testing.TB, dir string) sums {
	t.Helper()
	d := testenv.Closes(t, testenv.Must(openFolder(dir)))
	entries, _ := testenv.Must2(d.list(d))
	out := sums{}
	for _, e := range entries {
		f := testenv.Must(openFile(d, e.name))
		var sum [2]time.Duration
		must(f.Read(stream.Options{}, func(src *stream.Source) error {
			for s := range testenv.All(t, src.Samples()) {
				sum[0] += s.Wall
				sum[1] += s.CPU()
			}
			return nil
		}))
		out[fmt.Sprintf("%d at %d", f.PID, f.Start.UnixMicro())] = sum
	}
	return out
}

// push pushes a directory.
func push(t testing.TB, o Options) error {
	p := testenv.Must(New(o))
	return p.Run(context.Background())
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// A process writes files as a profiled program does.
type process struct {
	pid     int
	program string
	labels  int // different values of a label; 0: no labels
}

const startMicros = 1_800_000_000_000_000

// written has the finished files that were written, by process and number.
var written sync.Map

// file writes the file with a number, from 1. It has a second. If it is not to be finished, it is as a killed program
// leaves it, with its journal.
func (p process) file(t testing.TB, path string, part int, finish bool) {
	must(os.MkdirAll(filepath.Dir(path), 0o700))
	key := fmt.Sprint(p, part)
	if b, ok := written.Load(key); ok && finish {
		must(os.WriteFile(path, b.([]byte), 0o600))
		return
	}
	from := uint64(startMicros + p.pid*17 + (part-1)*1e6)
	w := testenv.Must(writer.Create(path, writer.Options{Start: from, Interval: 1000}))
	session := tachyon.Session{
		Program: p.program, GoVersion: "go1.26.0", GOOS: "linux", GOARCH: "amd64", Host: "web-1", PID: p.pid, Version: "v1.4.2", Module: "example.com/" + p.program,
		VCS: map[string]string{"vcs.revision": "0123456789abcdef0123", "vcs.modified": "true"}, BuildID: "a/b/c/d", Executable: "/opt/" + p.program,
		Start: time.UnixMicro(int64(from)).UTC(), Source: "native", Rate: 1000, Markers: true, Part: part,
		SessionStart: time.UnixMicro(int64(startMicros + p.pid*17)).UTC(),
	}
	must(w.Provisional(tachyon.KindSession, session))
	frame := func(name string, line int32) uint32 {
		return w.Intern(tachyon.Frame{Func: "main." + name, File: "/src/" + name + ".go", Line: line})
	}
	receive, runnable := w.Intern(tachyon.Frame{Func: "[chan receive]"}), w.Intern(tachyon.Frame{Func: "[runnable]"})
	root, work, wait := frame("main", 10), frame("work", 20), frame("wait", 30)
	const running = tachyon.HasGIL | tachyon.OnCPU
	samples := 0
	for g := range uint64(10) {
		info := tachyon.Goroutine{ID: 1 + g, CreatedBy: "main.main"}
		if p.labels > 0 {
			info.Labels = []tachyon.LabelSpan{{Labels: map[string]string{"tenant": fmt.Sprint("t", int(g)%p.labels)}}}
		}
		if g == 3 {
			info.Labels = []tachyon.LabelSpan{{Labels: map[string]string{
				"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331", "route": "/search"}}}
		}
		must(w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{info}}))
		for i := range uint64(20) {
			s := tachyon.Sample{Thread: info.ID, Time: from + (i+1)*50_000 - 1000 + g, Stack: []uint32{receive, wait, root}}
			switch (i + g) % 4 {
			case 0:
				s.Status, s.Stack = running, []uint32{work, root}
			case 1:
				s.Status, s.Stack = tachyon.GILRequested, []uint32{runnable, work, root}
			}
			samples++
			must(w.Write(&s))
		}
	}
	if !finish { // as a program leaves its file and the journal that is killed
		names := []string{path, path + journal.Suffix}
		for _, name := range names {
			copyFile(name, name+".kept")
		}
		must(w.Close())
		for _, name := range names {
			must(os.Rename(name+".kept", name))
		}
		return
	}
	session.Duration = time.Second
	session.Counts = tachyon.Counts{Samples: int64(samples), NotSeen: 12345 * time.Microsecond}
	must(w.AddMetadata(tachyon.KindSession, session))
	must(w.Close())
	written.Store(key, testenv.Must(os.ReadFile(path)))
}

func copyFile(from, to string) { must(os.WriteFile(to, testenv.Must(os.ReadFile(from)), 0o600)) }

// must ends the tests at an error that none of them expects.
func must(err error) { testenv.Must(0, err) }
