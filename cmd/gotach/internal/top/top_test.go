package top

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/httpprof"
	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/findings"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

const start = 1_795_234_224_000_000 // µs

var all = []View{Functions, Blocked, Locks, Groups}

// A file is a profile that a test writes.
type file struct {
	t *testing.T
	w *writer.Writer

	begin uint64 // of the session, µs
}

func create(t *testing.T, path string, at uint64, part int) *file {
	w := testenv.Must(writer.Create(path, writer.Options{Start: at, Interval: 1000}))
	f := &file{t, w, start}
	if part == 0 {
		f.begin = at
	}
	must(w.Provisional(tachyon.KindSession, f.session(part)))
	return f
}

func (f *file) session(part int) *tachyon.Session {
	return &tachyon.Session{Program: "/srv/app", PID: os.Getpid(), Host: "h", Start: time.UnixMicro(start), SessionStart: time.UnixMicro(int64(f.begin)), Part: part, Source: "native", Rate: 1000, Markers: true, Objects: tachyon.AllObjects}
}

const onCPU = tachyon.HasGIL | tachyon.OnCPU

// add writes a sample some ms after the start. A frame is a function, or a reason in brackets, with a line or an object.
func (f *file) add(id uint64, ms int, s tachyon.Status, stack ...string) {
	var list []tachyon.Frame
	for _, text := range stack {
		name, line, _ := strings.Cut(text, ":")
		n, _ := strconv.Atoi(line)
		frame := tachyon.Frame{Func: name, Line: int32(n)}
		switch {
		case strings.HasPrefix(name, "main."):
			frame.File = "/src/app/cache.go"
		case name[0] != '[':
			frame.File = "/usr/lib/go/src/sync/mutex.go"
		}
		list = append(list, frame)
	}
	must(f.w.WriteFrames(&tachyon.Sample{Thread: id, Time: start + 1000*uint64(ms), Status: s}, list))
}

// totals returns the time of the program's functions.
func totals(r *profile.Report) map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, row := range r.Rows {
		if row.Name[0] != '[' {
			out[row.Name] = row.Total
		}
	}
	return out
}

// seconds writes what happens between two times in seconds since start: goroutine 7 holds a lock for 30 ms of
// each 50, and 8 and 9 wait for it; from 4 s on there is one more waiting goroutine each second.
func (f *file) seconds(from, to int) {
	for ms := 1000*from + 1; ms <= 1000*to; ms++ {
		held := ms%50 < 30
		if held {
			f.add(7, ms, 0, "[sleep]", "main.load:60", "main.(*cache).refresh:42")
		} else {
			f.add(7, ms, 0, "[sleep]", "main.(*cache).refresh:45")
		}
		for id := uint64(8); id <= 9; id++ {
			if held {
				f.add(id, ms, 0, "[sync.Mutex.Lock]:1", "sync.(*Mutex).Lock:46", "main.(*cache).get:31", "main.serve:12")
			} else {
				f.add(id, ms, onCPU, "main.serve:14")
			}
		}
		if ms%10 == 0 {
			for n := range max(0, ms/1000-3) {
				f.add(uint64(20+n), ms, 0, "[chan receive]", "main.leaks:80")
			}
		}
	}
	var r tachyon.Records
	for id := uint64(7); id < 10; id++ {
		r.Goroutines = append(r.Goroutines, tachyon.Goroutine{ID: id, CreatedBy: "main.main", CreatedAt: "/src/app/main.go:" + strconv.Itoa(int(id))})
	}
	for n := range max(0, to-3) {
		r.Goroutines = append(r.Goroutines, tachyon.Goroutine{ID: uint64(20 + n), CreatedBy: "main.spawn", CreatedAt: "/src/app/main.go:70", FirstWeight: 10_000})
	}
	r.Objects = []tachyon.Object{{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0xc000010000}}
	must(f.w.WriteRecords(&r))
}

func (f *file) close(part int, from, to int) {
	s := f.session(part)
	s.Start, s.Duration = time.UnixMicro(start+int64(from)*1e6), time.Duration(to-from)*time.Second
	must(f.w.AddMetadata(tachyon.KindSession, s))
	must(f.w.Close())
}

// finished writes a file of some seconds.
func finished(t *testing.T, path string, seconds int) {
	t.Helper()
	f := create(t, path, start, 0)
	f.seconds(0, seconds)
	f.close(0, 0, seconds)
}

func open(t *testing.T, path string) *Watch {
	w := testenv.Closes(t, testenv.Must(File(path)))
	return w
}

func look(t *testing.T, w *Watch, q Query) *Look {
	t.Helper()
	must(w.Poll(context.Background()))
	return lookOnly(t, w, q)
}

func lookOnly(t *testing.T, w *Watch, q Query) *Look {
	t.Helper()
	l := testenv.Must(w.Look(q))
	testenv.StopIf(t, l == nil, "no samples")
	return l
}

// samplesOf returns the samples of a file as the other commands read them.
func samplesOf(t *testing.T, path, since, until string) *stream.Source {
	r := testenv.Closes(t, testenv.Must(reader.Open(path)))
	o := stream.Options{Creators: true, Objects: true}
	if since != "" {
		o.Select = &stream.Selection{}
		for text, into := range map[string]*stream.Moment{since: &o.Select.Since, until: &o.Select.Until} {
			*into = testenv.Must(stream.ParseMoment(text))
		}
	}
	return testenv.Must(stream.New([]stream.File{{Stream: r}}, o))
}

// compare compares a window with the same time of a file. since and until are empty for all of it.
func compare(t *testing.T, path, since, until string, l *Look, idle bool) {
	t.Helper()
	p := testenv.Must(report.NewProfile(samplesOf(t, path, since, until), report.Options{Idle: idle}))
	for _, x := range []struct {
		by  profile.By
		got *profile.Report
	}{{profile.ByFunction, l.Functions}, {profile.ByBlocked, l.Blocked}, {profile.ByState, l.States}} {
		if x.by == profile.ByState && idle {
			continue
		}
		want := testenv.Must(profile.New(p, profile.ReportOptions{By: x.by}))
		testenv.NoDiff(t, "by "+string(x.by), cmp.Diff(want.Rows, x.got.Rows, cmp.Ignore(profile.Row{}, "Series")))
	}
	locks := testenv.Must(locks.Find(analyze.NewSamples("", samplesOf(t, path, since, until)), locks.Options{}))
	testenv.NoDiff(t, "locks", cmp.Diff(locks, l.Locks, cmp.Exported()))
}

// A window of a finished file has the numbers that gotach report and locks have for that time.
func TestFinished(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.tach")
	finished(t, path, 12)
	w := open(t, path)
	l := look(t, w, Query{Window: time.Hour, Views: all})
	testenv.FailIf(t, l.Live || l.Ended != "" || l.To.Sub(l.From) != 12*time.Second, "live %v, ended %q, window %v", l.Live, l.Ended, l.To.Sub(l.From))
	testenv.FailIf(t, len(l.Locks.Locks) == 0 || l.Locks.Locks[0].Holder == nil || len(l.Locks.Locks[0].Holder.Lines) == 0, "no lock with a holder: %+v", l.Locks)
	compare(t, path, "", "", l, false)
	l = look(t, w, Query{At: time.UnixMicro(start + 7_025_500), Window: 3 * time.Second, Views: all, Idle: true})
	compare(t, path, "4.0255s", "7.0255s", l, true)
	testenv.Same(t, "goroutines", l.Goroutines, 3+4)
}

// A goroutine that waits at one place in the whole window is not idle for that: it may wait for an answer.
func TestResting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.tach")
	f := create(t, path, start, 0)
	for ms := 10; ms <= 8000; ms += 10 {
		f.add(5, ms, 0, "[chan receive]", "main.watch:3")
	}
	must(f.w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{{ID: 5, CreatedBy: "main.main", CreatedAt: "/src/app/main.go:9", FirstWeight: 10_000}}}))
	f.close(0, 0, 8)
	l := look(t, open(t, path), Query{Window: time.Minute, Views: []View{Blocked}})
	testenv.FailIf(t, len(l.Blocked.Rows) != 1 || l.Blocked.Rows[0].Self != 8*time.Second, "blocked: %+v, want main.watch for 8 s", l.Blocked.Rows)
}

// The goroutines of a place are counted and found to grow.
func TestGroups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.tach")
	finished(t, path, 20)
	w := open(t, path)
	l := look(t, w, Query{Window: 10 * time.Second, Views: []View{Groups}})
	byName := map[string]profile.Row{}
	for _, row := range l.Groups.Rows {
		byName[row.Name+" "+filepath.Base(row.File)+":"+strconv.Itoa(row.Line)] = row
	}
	leak := byName["main.spawn main.go:70"]
	testenv.Within(t, "goroutines of main.spawn on average", leak.Total.Seconds()/10, 11, 12) // 7 to 16 in steps
	testenv.Same(t, "goroutines of main.main:8 on average", byName["main.main main.go:8"].Total.Seconds()/10, 1)
	testenv.Same(t, "what grows", l.Leaks.Groups[0].CreatedBy, "main.spawn")
	testenv.Within(t, "goroutines more a minute", l.Leaks.Groups[0].PerMinute, 50, 70)
	l = lookOnly(t, w, Query{Window: 10 * time.Second, Views: all, Focus: regexp.MustCompile(`main\.leaks`), CPU: true, Apart: true, Findings: true})
	testenv.SameList(t, "groups, lines and functions of the filter", []int{len(l.Groups.Rows), len(l.Blocked.Rows), len(l.Functions.Rows)}, []int{1, 1, 0})
	testenv.FailIf(t, len(l.Findings) != 2 || l.Findings[0].Kind != findings.Lock || l.Findings[1].Kind != findings.Leak, "findings: %+v, want a lock and a leak", l.Findings)
	l = lookOnly(t, w, Query{Window: 10 * time.Second, Views: all})
	testenv.FailIf(t, len(l.States.Apart) != 1 || totals(l.States)["chan receive"] != 0, "set apart: %+v of %+v, want the leak", l.States.Apart, l.States.Rows)
}

// A file is followed while it is written, through a rotation, until it is finished; the windows are those of the
// files.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	f := create(t, filepath.Join(dir, "app.1.tach"), start, 1)
	w := open(t, filepath.Join(dir, "app.tach")) // there is none of this name
	f.seconds(0, 3)
	w.recent.behind = 0
	l := look(t, w, Query{Window: time.Minute, Views: all})
	testenv.FailIf(t, !l.Live || l.To.Sub(l.From) != 3*time.Second || len(l.Functions.Rows) == 0, "live %v, window %v, %d functions", l.Live, l.To.Sub(l.From), len(l.Functions.Rows))
	f.seconds(3, 5)
	f.close(1, 0, 5)
	f = create(t, filepath.Join(dir, "app.2.tach"), start+5e6, 2)
	f.seconds(5, 6)
	l = look(t, w, Query{Window: 2 * time.Second, Views: all})
	testenv.FailIf(t, !l.Live || l.From.UnixMicro() != start+4e6, "live %v, from %v", l.Live, l.From)
	wall, _ := l.States.Profile.Total()
	testenv.Within(t, "time in 2 s of 3 to 6 goroutines", wall, 6*time.Second, 9100*time.Millisecond)
	f.close(2, 5, 6)
	l = look(t, w, Query{Window: time.Minute, Views: all})
	testenv.FailIf(t, l.Live || l.Ended == "" || l.To.Sub(l.From) != 6*time.Second, "live %v, ended %q, window %v", l.Live, l.Ended, l.To.Sub(l.From))
	// The same session in one file.
	whole := filepath.Join(dir, "whole.tach")
	finished(t, whole, 6)
	compare(t, whole, "", "", l, false)
	// The program is started again.
	f = create(t, filepath.Join(dir, "app.2.tach"), start+60e6, 0)
	f.add(3, 61_000, 0, "[sleep]")
	l = look(t, w, Query{Window: time.Minute})
	testenv.FailIf(t, !l.Live || l.First.UnixMicro() < start+60e6, "live %v, first %v after the program was started again", l.Live, l.First)
	must(f.w.Close())
}

// Goroutines of a running program that wait count until the end of the window, though they are sampled rarely. Those
// that have ended do not.
func TestWaiting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.tach")
	f := create(t, path, start, 0)
	for ms := 1; ms <= 20_000; ms++ {
		f.add(1, ms, onCPU, "main.runs")
		switch ms {
		case 1, 9000:
			f.add(2, ms, 0, "[select]", "main.waits")
			f.add(3, ms, 0, "[select]", "main.ended")
			f.add(4, ms, onCPU, "main.ran")
		case 15_000:
			f.add(5, ms, 0, "[select]", "main.fresh")
		}
	}
	must(f.w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{
		{ID: 2, Last: 1000}, {ID: 3, Last: 1000}, {ID: 4, Last: 1000}, {ID: 5, Last: 15e6}, {ID: 3, Last: 9e6},
	}, Progress: &tachyon.Progress{Duration: 20 * time.Second, Counts: tachyon.Counts{MaxGoroutines: 12}}}))
	w := open(t, path)
	l := look(t, w, Query{Window: 10 * time.Second, Views: []View{Functions}})
	testenv.Same(t, "goroutines at once", l.MostGoroutines, 12)
	testenv.Same(t, "how far the window is behind, µs", start+20e6-l.To.UnixMicro(), 2_100_000)
	// The window is from 7.9 s to 17.9 s.
	want := map[string]time.Duration{"main.runs": 10 * time.Second, "main.waits": 10 * time.Second, "main.ended": 1100 * time.Millisecond, "main.ran": 1100 * time.Millisecond, "main.fresh": time.Millisecond}
	testenv.NoDiff(t, "", cmp.Diff(want, totals(l.Functions)))
	f.add(2, 20_001, 0, "[select]", "main.waits") // then the file has the time itself
	f.close(0, 0, 20)
	l = look(t, w, Query{At: l.To, Window: 10 * time.Second, Views: []View{Functions}})
	testenv.Same(t, "main.waits in the finished file", totals(l.Functions)["main.waits"], 10*time.Second)
}

// Memory is bounded: the oldest samples are forgotten.
func TestForget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.tach")
	finished(t, path, 40)
	w := open(t, path)
	w.recent.most = 50_000
	l := look(t, w, Query{Window: time.Hour, Views: []View{Functions}})
	kept := l.To.Sub(l.From)
	testenv.FailIf(t, w.recent.count > 50_000 || kept < 5*time.Second || kept > 20*time.Second, "%d samples, %v are kept", w.recent.count, kept)
	testenv.Within(t, "main.serve, of two goroutines", totals(l.Functions)["main.serve"], 2*kept-100*time.Millisecond, 2*kept)
}

// worker is what a session of this process sees.
func worker(stop chan struct{}) { <-stop }

// A session that runs in this process is found by the process's id, and at a URL.
func TestSession(t *testing.T) {
	testenv.Long(t)
	testenv.Fails(t, "before the session", testenv.Err(Process(os.Getpid())), "is writing no profile")
	stop := make(chan struct{})
	for range 3 {
		go worker(stop)
	}
	defer close(stop)
	path := filepath.Join(t.TempDir(), "self.tach")
	s := testenv.Must(profiler.Open(profiler.Output(path)))
	defer s.Stop()
	server := httptest.NewServer(httpprof.Handler())
	defer server.Close()
	url := testenv.Must(URL(server.URL + "/?format=pprof"))
	defer url.Close()
	process := testenv.Must(Process(os.Getpid()))
	defer process.Close()
	has := func(w *Watch) {
		t.Helper()
		var l *Look
		found := false
		testenv.Await(func() bool {
			must(w.Poll(t.Context()))
			if l = testenv.Must(w.Look(Query{Window: 10 * time.Second, Views: all, Idle: true})); l != nil {
				found = slices.ContainsFunc(l.Groups.Rows, func(row profile.Row) bool {
					return strings.HasSuffix(row.Name, "TestSession") && row.Total > l.To.Sub(l.From)
				})
			}
			return found
		})
		testenv.FailIf(t, !found, "the goroutines are not there: %+v", l)
	}
	has(process)
	has(url)
	must(s.Stop())
	l := look(t, process, Query{Window: time.Hour, Views: all})
	testenv.FailIf(t, l.Live || l.Ended == "", "after Stop: live %v, ended %q", l.Live, l.Ended)
}

// What cannot be watched is an error that says what to do.
func TestErrors(t *testing.T) {
	testenv.Fails(t, "a process", testenv.Err(Process(1<<30)), "no such process")
	testenv.Is(t, "a file that is not there", testenv.Err(File(filepath.Join(t.TempDir(), "none.tach"))), os.ErrNotExist)
	junk := filepath.Join(t.TempDir(), "junk")
	must(os.WriteFile(junk, []byte(strings.Repeat("junk", 100)), 0o600))
	testenv.Fails(t, "junk", open(t, junk).Poll(t.Context()), "not a Tachyon file")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }))
	defer server.Close()
	testenv.Fails(t, "no profile", testenv.Must(URL(server.URL)).Poll(t.Context()), "httpprof.Handler")
}

// Nothing that top says of a URL has the password, the user, or what the query has.
func TestURLSecret(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for _, text := range []string{"http://us3r:S3CR%ET@h", "http://us3r:S3CRET@h:1x", "ftp://us3r:S3CRET@h", "://us3r:S3CRET@h", "http://us3r:S3CRET@", "http://"} {
		_, err := URL(text)
		testenv.FailIf(t, err == nil || strings.Contains(err.Error()+URLName(text), "3"), "%s: %v, %s", text, err, URLName(text))
	}
	for _, status = range []int{http.StatusOK, http.StatusForbidden, http.StatusServiceUnavailable, 0} {
		if status == 0 {
			server.Close()
		}
		w := testenv.Must(URL("http://us3r:S3CRET@" + host + "/debug/profile?token=T0KEN"))
		err := w.Poll(t.Context())
		said := fmt.Sprint(err, w.State().Notice, w.State().Name)
		testenv.FailIf(t, !strings.Contains(said, host) || strings.Contains(said, "us3r") || strings.Contains(said, "S3CRET") || strings.Contains(said, "T0KEN"), "%d: %s", status, said)
	}
}

func TestSilence(t *testing.T) {
	host := testenv.Must(os.Hostname())
	now := time.UnixMicro(start).Add(time.Minute)
	for _, x := range []struct {
		host   string
		pid    int
		latest uint64
		want   string
	}{
		{host, os.Getpid(), start, "no sample for 1m0s"},
		{host, 1 << 22, start, "has ended"},
		{"another host", 1 << 22, start, "no sample for 1m0s"},
		{host, 1 << 22, start + 58e6, ""},
	} {
		got := silence(x.latest, &tachyon.Session{Host: x.host, PID: x.pid}, now)
		testenv.FailIf(t, !strings.Contains(got, x.want) || x.want == "" && got != "", "%+v: %q", x, got)
	}
}

// must and have end the tests at an error that none of them expects.
func must(err error) { testenv.Must(0, err) }
