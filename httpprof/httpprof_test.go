package httpprof

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/pprof/profile"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/nytprof"
	"github.com/gotach/profiler/tachyon"
)

// get asks a handler for url and returns status, body and headers.
func get(t *testing.T, h http.Handler, url string) (int, []byte, http.Header) {
	srv := httptest.NewUnstartedServer(h)
	srv.Config.WriteTimeout = time.Hour
	srv.Start()
	defer srv.Close()
	res := testenv.Must(http.Get(srv.URL + url))
	defer res.Body.Close()
	body := testenv.Must(io.ReadAll(res.Body))
	http.DefaultClient.CloseIdleConnections()
	return res.StatusCode, body, res.Header
}

//go:noinline
func handlerTestNap(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
			time.Sleep(5 * time.Millisecond)
		}
	}
}

//go:noinline
func handlerTestWait(stop <-chan struct{}) { <-stop }

// load runs two goroutines until the test ends: one naps, the other waits.
func load(t *testing.T) {
	stop, done := make(chan struct{}), make(chan struct{}, 2)
	go func() { handlerTestNap(stop); done <- struct{}{} }()
	go func() { handlerTestWait(stop); done <- struct{}{} }()
	t.Cleanup(func() { close(stop); <-done; <-done })
}

// With PROFILE_SOURCE=off the handler says so at once.
func TestOff(t *testing.T) {
	t.Setenv("PROFILE_SOURCE", "off")
	answers(t, ask(t.Context(), "seconds=1"), http.StatusServiceUnavailable, "PROFILE_SOURCE=off")
}

// Without a session the handler runs one. Options and variables for the output have no effect, those for
// sampling do. The handler is not in the profile: its time is time of its caller.
func TestHandler(t *testing.T) {
	load(t)
	dir := t.TempDir()
	temp := filepath.Join(t.TempDir(), "%p") // must not be expanded
	testenv.OK(t, os.Mkdir(temp, 0o700))
	t.Setenv("TMPDIR", temp)
	t.Setenv("PROFILE_OUT", filepath.Join(dir, "env.tach"))
	t.Setenv("PROFILE_ROTATE", "1s")
	t.Setenv("PROFILE_EXPORT", "pprof="+filepath.Join(dir, "env.pb.gz"))
	h := Handler(profiler.Output(filepath.Join(dir, "code.tach")), profiler.RotateEvery(time.Second), profiler.Rate(970))
	code, body, header := get(t, h, "/?seconds=1&format=tach")
	testenv.Same(t, string(body[:min(80, len(body))]), code, http.StatusOK)
	testenv.Same(t, "Content-Disposition", header.Get("Content-Disposition"), `attachment; filename="profile.tach"`)
	testenv.Empty(t, dir)
	r := testenv.Must(reader.New(bytes.NewReader(body)))
	serving, frames := false, r.Frames()
	for s := range testenv.All(t, r.Samples()) {
		inner := ""
		for _, id := range s.Stack {
			f := frames[id]
			testenv.StopIf(t, strings.HasPrefix(f.Func, "github.com/gotach/profiler") && !strings.HasSuffix(f.File, "_test.go"), "a sample has %s at %s:%d", f.Func, f.File, f.Line)
			if inner == "" && !strings.HasPrefix(f.Func, "[") {
				inner = f.Func
			}
		}
		serving = serving || inner == "net/http.serverHandler.ServeHTTP"
	}
	testenv.Same(t, "the handler's caller has samples", serving, true)
	d := checkLoad(t, r, false, false).Session
	testenv.FailIf(t, d.Part != 0 || d.Duration < time.Second || d.Rate != 970, "part %d of %v at %d Hz, want all of 1s at 970 Hz", d.Part, d.Duration, d.Rate)
}

// Requests that the handler refuses at once.
func TestRefused(t *testing.T) {
	for query, want := range map[string]string{
		"seconds=x":                    "bad seconds",
		"seconds=0":                    "bad seconds",
		"seconds=-1":                   "bad seconds",
		"seconds=1.5":                  "bad seconds",
		"seconds=99999999999999999999": "bad seconds",
		"seconds=3600":                 "exceeds the server's WriteTimeout",
		"last=x":                       "not a duration such as 30s",
		"last=-1s":                     "not a duration such as 30s",
		"last=1s&seconds=1":            "a request has one of them",
		"last=1s&format=bmp":           "bad format",
		"format=parquet":               "bad format",
		"last=2h":                      "no session is running",
	} {
		code, body, _ := get(t, Handler(), "/?"+query)
		status := http.StatusBadRequest
		if query == "last=2h" {
			status = http.StatusServiceUnavailable
		}
		answers(t, answer{code: code, body: body}, status, want)
	}
	synctest.Test(t, func(t *testing.T) {
		answers(t, ask(t.Context(), "seconds=1"), http.StatusInternalServerError, "synctest")
	})
}

// When the client closes the connection, the profile ends, and its file is removed. A session that ran before goes on.
func TestClientGone(t *testing.T) {
	for _, running := range []bool{false, true} {
		if running {
			open(t)
		}
		temp := temporary(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan answer)
		go func() { done <- ask(ctx, "") }() // a profile of 30 s
		testenv.Await(func() bool {
			list, _ := filepath.Glob(temp + "/*/*.tach")
			return len(list) > 0
		})
		cancel()
		testenv.Same(t, "sent", string((<-done).body), "")
		s, err := profiler.Open(profiler.Output(filepath.Join(t.TempDir(), "x.tach")))
		testenv.FailIf(t, (err != nil) != running, "a session of the program before: %v, now %v", running, err)
		s.Stop()
		testenv.Empty(t, temp)
	}
}

// TestNoSource: no format has lines of the server's source files, although the profile names them.
func TestNoSource(t *testing.T) {
	open(t)
	named := false
	testenv.Await(func() bool {
		a, ours := ask(t.Context(), "last=50ms&format=nytprof"), map[uint32]bool{} // files
		if a.code != http.StatusOK {
			return false // the session is younger
		}
		for c := range testenv.All(t, nytprof.NewReader(bytes.NewReader(a.body)).Chunks()) {
			switch c := c.(type) {
			case *nytprof.NewFID:
				ours[c.FID] = strings.HasSuffix(c.Name.Text, "/httpprof_test.go")
				named = named || ours[c.FID]
			case *nytprof.SrcLine:
				testenv.StopIf(t, ours[c.FID] && strings.HasPrefix(c.Text.Text, "package httpprof"), "the answer has %q", c.Text.Text)
			}
		}
		return named
	})
	testenv.Same(t, "the profile names a source file", named, true)
}

// open begins a session, beside load with a label, and waits until its file has both goroutines of load.
func open(t *testing.T, opts ...profiler.Option) (s *profiler.Session, path string) {
	t.Helper()
	pprof.Do(t.Context(), pprof.Labels("kind", "early"), func(context.Context) { load(t) })
	path = filepath.Join(t.TempDir(), "x.tach")
	s = testenv.Must(profiler.Open(append(opts, profiler.Output(path), profiler.Budget(50), profiler.MaxPause(time.Minute))...))
	t.Cleanup(func() { _ = s.Stop() })
	await(s.Path())
	return s, path
}

// await waits until a file that grows has both goroutines of load.
func await(path string) {
	testenv.Await(func() bool {
		r, err := reader.Open(path)
		if err != nil {
			return false
		}
		defer r.Close()
		known := 0
		for g, err := range r.Goroutines() {
			if err == nil && strings.HasSuffix(g.CreatedBy, "httpprof.load") {
				known++
			}
		}
		return known == 2
	})
}

// While a session runs, a profile of the next seconds is taken from it. It has labels and creators
// of goroutines that began long before it, and only its own time. The session goes on as before. By day beside, in package ui, has a portable one.
func TestRunningSession(t *testing.T) {
	for _, kind := range []profiler.SourceKind{profiler.Auto, profiler.Portable}[:testenv.Times(1, 2)] {
		t.Run(string(kind), func(t *testing.T) {
			s, path := open(t, profiler.Source(kind))
			labels, begin := s.Stats().Source == "native", time.Now()
			code, body, _ := get(t, brief, "/?seconds=1&format=tach")
			took := time.Since(begin)
			testenv.Same(t, string(body[:min(80, len(body))]), code, http.StatusOK)
			r := testenv.Must(reader.New(bytes.NewReader(body)))
			d := checkLoad(t, r, labels, true).Session
			testenv.FailIf(t, d.Duration > took || d.Start.Before(begin.Add(-time.Millisecond)), "after %v the session is %+v", took, d)
			testenv.Within(t, "ticks", d.TicksReached, 1, s.Stats().TicksReached-1)
			testenv.OK(t, s.Stop())
			whole := testenv.Must(reader.Open(path))
			testenv.FailIf(t, checkLoad(t, whole, labels, false).Session.Duration < took, "the session's own file has not all of %v", took)
		})
	}
}

// With last, the profile is of the past of the session that runs, from one file. TestMany asks for one from several.
func TestPast(t *testing.T) {
	s, _ := open(t)
	answers(t, ask(t.Context(), "last=1h"), http.StatusServiceUnavailable, "the session has run for ")
	past(t, s)
}

// past asks for all of a session that runs.
func past(t *testing.T, s *profiler.Session) {
	t.Helper()
	last := s.Stats().Duration
	since := time.Now().Add(-last - time.Millisecond)
	code, body, _ := get(t, Handler(), fmt.Sprintf("/?last=%v&format=tach", last))
	testenv.Same(t, string(body[:min(80, len(body))]), code, http.StatusOK)
	r := testenv.Must(reader.New(bytes.NewReader(body)))
	d := checkLoad(t, r, s.Stats().Source == "native", false).Session
	testenv.FailIf(t, d.Start.Before(since) || d.Error != "", "of the last %v the session is %+v", last, d)
	_, body, header := get(t, Handler(), fmt.Sprintf("/?last=%v", last)) // for pprof
	p := testenv.Must(profile.ParseData(body))
	i, err := p.SampleIndexByName("")
	testenv.FailIf(t, err != nil || p.SampleType[i].Unit != "nanoseconds" || p.DurationNanos <= 0 || len(p.Sample) < 2 || !strings.HasSuffix(header.Get("Content-Disposition"), `profile.pb.gz"`), "%v, pprof shows %+v of %v, %v", header, p.SampleType, p.DurationNanos, err)
}

// samples are those of a file, with their weights.
func samples(r *reader.Reader) *stream.Source {
	return testenv.Must(stream.New([]stream.File{{Stream: r}}, stream.Options{}))
}

// checkLoad checks the times of load's two functions, and creators and labels of their goroutines. It closes the
// file. part says that the goroutines began before the profile.
func checkLoad(t *testing.T, r *reader.Reader, labels, part bool) *tachyon.Metadata {
	t.Helper()
	defer r.Close()
	m, err := r.Metadata()
	testenv.StopIf(t, err != nil || m.Session == nil || m.Session.Samples != int64(r.Header().Samples), "the session is %+v, the header %+v, %v", m.Session, r.Header(), err)
	times, ids := map[string]time.Duration{}, map[uint64]bool{}
	src := samples(r)
	for s := range testenv.All(t, src.Samples()) {
		if s.Interpreter == tachyon.Process {
			continue // CPU time of before the goroutine was known
		}
		for _, id := range src.AppendStack(nil, s.Stack) {
			if _, name, _ := strings.Cut(src.Frames()[id].Func, ".handlerTest"); name != "" {
				times[name] += s.Wall
				ids[s.Goroutine] = true
			}
		}
	}
	most := m.Session.Duration + 5*time.Millisecond
	testenv.SameList(t, "functions and goroutines", []int{len(times), len(ids)}, []int{2, 2})
	testenv.Within(t, "time of the one that naps", times["Nap"], 1, most)
	testenv.Within(t, "time of the one that waits", times["Wait"], 1, most)
	for _, g := range m.Goroutines {
		if !ids[g.ID] {
			continue
		}
		delete(ids, g.ID)
		labelled := len(g.Labels) == 1 && (!part || g.Labels[0].From == 0) && g.Labels[0].Labels["kind"] == "early"
		testenv.FailIf(t, !strings.HasSuffix(g.CreatedBy, "httpprof.load") || labels && !labelled, "goroutine %+v", g)
	}
	testenv.FailIf(t, len(ids) > 0, "nothing is known of the goroutines %v", ids)
	return m
}

// TestKeep: keep asks the session that runs to keep its files, once a minute; the file says why.
func TestKeep(t *testing.T) {
	keep := func() int { return ask(t.Context(), "keep=slow+again").code }
	testenv.Same(t, "the status without a session", keep(), http.StatusServiceUnavailable)
	path := filepath.Join(t.TempDir(), "own.tach")
	s := testenv.Must(profiler.Open(profiler.Output(path)))
	defer s.Stop()
	testenv.Same(t, "statuses", [2]int{keep(), keep()}, [2]int{http.StatusOK, http.StatusServiceUnavailable})
	testenv.OK(t, s.Stop())
	r := testenv.Closes(t, testenv.Must(reader.Open(path)))
	testenv.Same(t, "kept", testenv.Must(r.Metadata()).Session.Kept, "slow again")
}

//go:noinline
func waitsFirst(c chan struct{}) { <-c }

//go:noinline
func waitsThen(c chan struct{}) { <-c }

// TestStacks: at and format=stacks send what goroutines did then, also of a goroutine that does something else now.
func TestStacks(t *testing.T) {
	for _, bad := range []string{"at=5s&format=stacks", "at=-5s", "format=stacks", "at=x&format=stacks", "at=-5s&last=5s&format=stacks", "at=-2562047h47m16.854775808s&format=stacks"} {
		testenv.Same(t, bad, ask(t.Context(), bad).code, http.StatusBadRequest)
	}
	testenv.Same(t, "the status without a session", ask(t.Context(), "at=-1ms&format=stacks").code, http.StatusServiceUnavailable)
	first, then, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		waitsFirst(first)
		waitsThen(then)
	}()
	defer func() { close(then); <-done }()
	open(t)
	has := func(at, text string) bool {
		a := ask(t.Context(), "at=-"+at+"&format=stacks")
		return a.code == http.StatusOK && strings.Contains(string(a.body), text)
	}
	const both = "]:\ngithub.com/gotach/profiler/httpprof.waitsFirst(...)\n"
	var was time.Time
	testenv.Await(func() bool { was = time.Now(); return has("1ms", both) })
	close(first)
	testenv.Await(func() bool { return has("1us", "httpprof.waitsThen(...)") })
	var text string
	asBefore := func() bool { return strings.Contains(text, both) && !strings.Contains(text, "waitsThen") }
	testenv.Await(func() bool { // a request that is late asks for a later moment
		text = string(ask(t.Context(), "at=-"+time.Since(was).String()+"&format=stacks").body)
		return asBefore()
	})
	testenv.FailIf(t, !asBefore() || !strings.Contains(text, "created by github.com/gotach/profiler/httpprof.TestStacks in goroutine "), "before, goroutines did\n%s", text)
}
