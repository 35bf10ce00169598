package httpprof_test // an external package: profiles may leave out goroutines of package httpprof

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/felixge/fgprof"
	"github.com/google/pprof/profile"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/httpprof"
	"github.com/gotach/profiler/reader"
)

// get asks a handler for url and returns status, body and headers.
func get(t *testing.T, h http.Handler, url string) (int, []byte, http.Header) {
	t.Helper()
	srv := httptest.NewServer(h)
	defer srv.Close()
	res, err := http.Get(srv.URL + url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
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

// near reports whether v is within a fifth of want.
func near(v, want float64) bool { return v > 0.8*want && v < 1.2*want }

// The handler takes fgprof's parameters with the same meanings and sends the same kind of
// response.
func TestHandlerAsFgprof(t *testing.T) {
	load(t)
	ours, theirs := httpprof.Handler(), fgprof.Handler()

	t.Run("pprof", func(t *testing.T) {
		for _, url := range []string{"/?seconds=1", "/?seconds=1&format=pprof"} {
			// times returns the duration of the profile and the times that load's two
			// goroutines spent in it, in seconds.
			times := func(h http.Handler) (all, nap, wait float64) {
				code, body, _ := get(t, h, url)
				if code != http.StatusOK {
					t.Fatalf("status %d: %s", code, body)
				}
				p, err := profile.ParseData(body)
				if err != nil {
					t.Fatal(err)
				}
				if all = time.Duration(p.DurationNanos).Seconds(); all < 1 { // on a busy machine it may be more
					t.Errorf("the profile says it took %v s", all)
				}
				// The sample type that pprof shows by default, in seconds.
				index, err := p.SampleIndexByName(p.DefaultSampleType)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range p.Sample {
					v := float64(s.Value[index]) / 1e9
					if hasFunction(s, "handlerTestNap") {
						nap += v
					}
					if hasFunction(s, "handlerTestWait") {
						wait += v
					}
				}
				return all, nap, wait
			}
			// Our times must be near the profile's duration. fgprof counts ticks and misses
			// some on a busy machine, so its two times are compared with each other.
			all, nap, wait := times(ours)
			if !near(nap, all) || !near(wait, all) {
				t.Errorf("%s: in %.2f s one goroutine napped for %.2f s, the other waited for %.2f s", url, all, nap, wait)
			}
			if _, nap, wait = times(theirs); !near(nap, wait) {
				t.Errorf("%s: fgprof says %.2f s of napping, %.2f s of waiting", url, nap, wait)
			}
		}
	})

	t.Run("folded", func(t *testing.T) {
		share := func(h http.Handler) float64 {
			code, body, _ := get(t, h, "/?seconds=1&format=folded")
			if code != http.StatusOK {
				t.Fatalf("status %d: %s", code, body)
			}
			var nap, wait float64
			for line := range strings.Lines(string(body)) {
				stack, value, ok := cutLast(strings.TrimSpace(line), " ")
				v, err := strconv.ParseFloat(value, 64)
				if !ok || err != nil {
					t.Fatalf("line %q", line)
				}
				if strings.Contains(stack, "handlerTestNap;") {
					nap += v
				}
				if strings.Contains(stack, "handlerTestWait;") {
					wait += v
				}
			}
			return nap / (nap + wait)
		}
		if a, b := share(ours), share(theirs); !(a > 0.45 && a < 0.55 && b > 0.45 && b < 0.55) {
			t.Errorf("one of the two goroutines has a share of %.2f, with fgprof %.2f", a, b)
		}
	})

	t.Run("bad seconds", func(t *testing.T) {
		for _, s := range []string{"x", "0", "-1", "1.5", "99999999999999999999"} {
			a, body, _ := get(t, ours, "/?seconds="+s)
			b, _, _ := get(t, theirs, "/?seconds="+s)
			if a != http.StatusBadRequest || b != http.StatusBadRequest || !bytes.Contains(body, []byte("bad seconds")) {
				t.Errorf("seconds=%s: ours %d %q, fgprof's %d", s, a, body, b)
			}
		}
	})
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func hasFunction(s *profile.Sample, name string) bool {
	return slices.ContainsFunc(s.Location, func(l *profile.Location) bool {
		return slices.ContainsFunc(l.Line, func(line profile.Line) bool { return strings.HasSuffix(line.Function.Name, name) })
	})
}

func TestHandlerFormats(t *testing.T) {
	load(t)
	code, body, header := get(t, httpprof.Handler(), "/?seconds=1&format=tach")
	if code != http.StatusOK {
		t.Fatalf("status %d: %s", code, body)
	}
	if got := header.Get("Content-Disposition"); got != `attachment; filename="profile.tach"` {
		t.Errorf("Content-Disposition %q", got)
	}
	r, err := reader.New(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m, err := r.Metadata()
	if err != nil || m.Session == nil {
		t.Fatal("no session in the metadata: ", err)
	}
	// The handler is not in the profile. Its time is time of its caller.
	var serving time.Duration
	frames := r.Frames()
	for s, err := range reader.Weighted(r) {
		if err != nil {
			t.Fatal(err)
		}
		inner := ""
		for _, id := range s.Stack {
			f := frames[id]
			if strings.HasPrefix(f.Func, "github.com/gotach/profiler") && !strings.HasSuffix(f.File, "_test.go") {
				t.Fatalf("a sample has %s at %s:%d", f.Func, f.File, f.Line)
			}
			if inner == "" && !strings.HasPrefix(f.Func, "[") {
				inner = f.Func
			}
		}
		if inner == "net/http.serverHandler.ServeHTTP" {
			serving += s.Wall()
		}
	}
	if serving < m.Session.Duration/2 {
		t.Errorf("the handler's caller has %v of %v", serving, m.Session.Duration)
	}
	code, body, _ = get(t, httpprof.Handler(), "/?seconds=1&format=bmp")
	if code != http.StatusBadRequest || !bytes.Contains(body, []byte("pprof")) {
		t.Errorf("an unknown format: %d %q; want a list of the formats", code, body)
	}
}

// When the client closes the connection the session ends, and its file is removed.
func TestHandlerClientGone(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	done := make(chan struct{})
	h := httpprof.Handler()
	ctx, cancel := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		time.AfterFunc(100*time.Millisecond, cancel) // cancel after the request has arrived
		h.ServeHTTP(w, r)
	}))
	defer srv.Close()
	req, err := http.NewRequestWithContext(ctx, "GET", srv.URL, nil) // a profile of 30 s
	if err != nil {
		t.Fatal(err)
	}
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
		t.Fatal("the request was answered")
	}
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the handler does not end when the client closes the connection")
	}
	s, err := profiler.Open(profiler.Output(filepath.Join(t.TempDir(), "x.tach")))
	if err != nil {
		t.Errorf("after it: %v", err)
	}
	s.Stop()
	if left, _ := os.ReadDir(temp); len(left) != 0 {
		t.Errorf("left in the temporary directory: %v", left)
	}
}

func TestHandlerWriteTimeout(t *testing.T) {
	srv := httptest.NewUnstartedServer(httpprof.Handler())
	srv.Config.WriteTimeout = 2 * time.Second
	srv.Start()
	defer srv.Close()
	res, err := http.Get(srv.URL + "/?seconds=2")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusBadRequest || !bytes.Contains(body, []byte("WriteTimeout")) {
		t.Errorf("status %d: %s", res.StatusCode, body)
	}
	http.DefaultClient.CloseIdleConnections()
}
