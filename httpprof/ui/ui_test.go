package ui

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/httpprof"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
)

// program is a program that works, until the test ends. It returns the folder of recordings, of which nothing may stay.
func program(t *testing.T, u *UI) (temp string) {
	t.Helper()
	temp = t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); work(ctx) }()
	t.Cleanup(func() {
		testenv.OK(t, u.Close())
		stop()
		<-ended
		testenv.SameList(t, "left", testenv.Must(filepath.Glob(filepath.Join(temp, "gotach-*"))), nil)
		testenv.Await(func() bool { return left() == "" })
		testenv.Same(t, "goroutines that are left", left(), "")
	})
	return temp
}

// left returns the stacks of goroutines if there are some of the handler.
func left() string {
	all := make([]byte, 1<<20)
	text := string(all[:runtime.Stack(all, true)])
	if strings.Contains(text, "page.(*Server)") || strings.Contains(text, "ui.(*") || strings.Contains(text, "internal/stream.") {
		return text
	}
	return ""
}

// work computes and waits until the context ends.
func work(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		if n%10_000 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// get asks the handler for a path below its own.
func get(u *UI, path string, header ...string) (int, string) {
	r, w := httptest.NewRequest(http.MethodGet, "http://localhost/debug/gotach/"+path, nil), httptest.NewRecorder()
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	u.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// code is the status of an answer.
func code(u *UI, path string) int {
	c, _ := get(u, path)
	return c
}

// status asks for the status until it is as wanted.
func status(t *testing.T, u *UI, is func(*page.Status) bool) (s page.Status) {
	t.Helper()
	testenv.Await(func() bool {
		s = page.Status{}
		code, body := get(u, "data/status?generation=0")
		testenv.Same(t, body, code, http.StatusOK)
		testenv.OK(t, json.Unmarshal([]byte(body), &s))
		return is(&s)
	})
	testenv.FailIf(t, !is(&s), "the status stays %+v", s)
	return s
}

// TestRecording: without a session the handler runs one. It ends at its limit and can be started again.
// Meanwhile another handler does beside.
func TestRecording(t *testing.T) {
	u := Handler(profiler.Source(profiler.Portable), profiler.Budget(50))
	u.l = limits{length: 100 * time.Millisecond, size: 1 << 20, unasked: time.Hour, kept: time.Hour, look: time.Millisecond}
	program(t, u)
	testenv.Same(t, "before the page is opened", code(u, "data/status"), http.StatusGone)
	_, body := get(u, "")
	testenv.Has(t, "the page", body, "<!doctype html>")
	status(t, u, func(s *page.Status) bool { return s.Again })
	beside(t) // the page is not read again for two seconds
	first := status(t, u, func(s *page.Status) bool { return s.Again && s.Head != nil && !s.Growing && s.Progress == "" }).Head.Sides[0]
	testenv.FailIf(t, first.Duration <= 0 || first.Samples == 0 || len(first.Facts) == 0, "the recording is %+v", first)
	testenv.Same(t, "the page again", code(u, ""), http.StatusOK)
	testenv.Same(t, "no other recording has begun", status(t, u, func(s *page.Status) bool { return true }).Again, true)
	testenv.Same(t, "a new recording", code(u, "?new=1"), http.StatusSeeOther)
	status(t, u, func(s *page.Status) bool { return s.Head != nil && s.Head.Sides[0].Start.After(first.Start) })
	testenv.OK(t, u.Close())
	testenv.Same(t, "after Close", code(u, ""), http.StatusServiceUnavailable)
}

// beside: a request of package httpprof shares the session of a recording, which goes on until its time is over.
func beside(t *testing.T) {
	t.Helper()
	u := Handler(profiler.Source(profiler.Portable), profiler.Budget(50))
	program(t, u)
	testenv.Same(t, "the page", code(u, ""), http.StatusOK)
	answer := make(chan *httptest.ResponseRecorder)
	go func() {
		w := httptest.NewRecorder()
		httpprof.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?seconds=1&format=tach", nil))
		answer <- w
	}()
	testenv.Await(func() bool {
		list, _ := filepath.Glob(filepath.Join(os.TempDir(), "*", "recording.tach"))
		return len(list) == 1
	})
	testenv.OK(t, u.Close())
	w := <-answer
	testenv.Same(t, "status", w.Code, http.StatusOK)
	r := testenv.Must(reader.New(w.Body))
	s := testenv.Must(r.Metadata()).Session
	testenv.FailIf(t, s == nil || s.Duration < time.Second || s.Samples == 0 || s.Source != "portable", "the session is %+v", s)
}

// TestLimits: a recording ends when nobody asks for it or its file is large, and is removed later. The session that it is
// taken from goes on.
func TestLimits(t *testing.T) {
	s := testenv.Must(profiler.Open(profiler.Output(filepath.Join(t.TempDir(), "own.tach")), profiler.Source(profiler.Portable), profiler.Budget(50)))
	defer s.Stop()
	const soon = 10 * time.Millisecond
	for name, l := range map[string]limits{
		"ended, nobody asks": {time.Hour, 1 << 30, soon, time.Hour, time.Millisecond},
		"ended, large":       {time.Hour, 1, time.Hour, time.Hour, time.Millisecond},
		"removed":            {time.Hour, 1 << 30, time.Hour, soon, time.Millisecond},
	} {
		want, _, _ := strings.Cut(name, ",")
		t.Run(name, func(t *testing.T) {
			u := Handler()
			u.l = l
			temp := program(t, u)
			testenv.Same(t, "the page", code(u, ""), http.StatusOK)
			is := func() string {
				u.mu.Lock()
				defer u.mu.Unlock()
				left, err := os.ReadDir(temp)
				switch {
				case err == nil && len(left) == 0 && u.rec == nil:
					return "removed"
				case u.rec != nil && u.rec.ended():
					return "ended"
				}
				return "recording"
			}
			testenv.Await(func() bool { return is() == want })
			testenv.Same(t, "the recording", is(), want)
		})
	}
	testenv.OK(t, s.Stop())
}

// TestRest: reading parts of the time takes a fifth of the time at most, as package page holds.
func TestRest(t *testing.T) { testenv.Same(t, "rest", (&recording{}).options().Rest, true) }

// TestRefused: other names and other websites get nothing and start nothing.
func TestRefused(t *testing.T) {
	u := Handler(profiler.Source(profiler.Portable), Hosts("debug.example.com"))
	temp := program(t, u)
	cross := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	for _, c := range []struct {
		name, path string
		header     []string
		want       int
	}{
		{"a name that was made to point here", "", []string{"Host", "evil.example"}, 403},
		{"data by that name", "data/status", []string{"Host", "evil.example:8080"}, 403},
		{"a link of another site, without a recording", "", cross, 410},
		{"a frame of another site", "", append(cross[:5:5], "iframe"), 410},
		{"another site's script", "?new=1", append(cross[:3:3], "no-cors"), 410},
		{"nobody", "", nil, 200}, // begins a recording
		{"a port", "", []string{"Host", "localhost:80"}, 200},
		{"capitals", "", []string{"Host", "LOCALHOST"}, 200},
		{"an address", "", []string{"Host", "[::1]:6060"}, 200},
		{"another address", "", []string{"Host", "10.1.2.3"}, 200},
		{"a name in Hosts", "", []string{"Host", "debug.example.com:443"}, 200},
		{"data for another site's script", "data/status", append(cross[:3:3], "no-cors"), 403},
		{"data for another site", "data/status", []string{"Origin", "http://evil.example"}, 403},
	} {
		code, body := get(u, c.path, c.header...)
		testenv.Same(t, c.name+": "+body, code, c.want)
		left, _ := os.ReadDir(temp)
		testenv.FailIf(t, code != http.StatusOK && c.want != http.StatusForbidden && len(left) > 0, "%s began %v", c.name, left)
	}
	w := httptest.NewRecorder()
	u.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://localhost/debug/gotach/", nil))
	testenv.Same(t, "a write", w.Code, http.StatusMethodNotAllowed)
}

// With PROFILE_SOURCE=off there is no page, which says why.
func TestOff(t *testing.T) {
	t.Setenv("PROFILE_SOURCE", "off")
	u := Handler()
	program(t, u)
	code, body := get(u, "")
	testenv.Same(t, "status", code, http.StatusServiceUnavailable)
	testenv.Has(t, "the answer", body, "PROFILE_SOURCE=off")
}
