package httpprof

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
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
