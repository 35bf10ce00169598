package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
)

// program is a program that works, with the page in its mux. Recordings are in the folder that it returns.
func program(t *testing.T, u *UI) (url, temp string) {
	t.Helper()
	temp = t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); work(ctx) }()
	mux := http.NewServeMux()
	mux.Handle("/debug/gotach/", u)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
		stop()
		<-ended
		if left, err := filepath.Glob(filepath.Join(temp, "gotach-*")); err != nil || len(left) > 0 {
			t.Errorf("the handler leaves %v (%v)", left, err)
		}
		all := make([]byte, 1<<20)
		all = all[:runtime.Stack(all, true)]
		if text := string(all); strings.Contains(text, "page.(*Server)") || strings.Contains(text, "ui.(*") || strings.Contains(text, "internal/stream.") {
			t.Errorf("goroutines are left:\n%s", text)
		}
	})
	return server.URL + "/debug/gotach/", temp
}

// work computes and waits until the context ends.
func work(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		if n%1_000_000 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

func get(t *testing.T, url string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(b)
}

// status asks for the status until it is as wanted.
func status(t *testing.T, url string, than int64, is func(*page.Status) bool) (s page.Status) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		s = page.Status{}
		code, body := get(t, fmt.Sprintf("%sdata/status?generation=%d", url, than))
		if err := json.Unmarshal([]byte(body), &s); err != nil || code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
		if is(&s) {
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("the status stays %s", body)
		}
	}
}

// TestPage: a browser shows the running program from its session, what is new too, and a selected range stays. The session's own
// file is whole.
func TestPage(t *testing.T) {
	chromium := testenv.Chromium(t)
	own := filepath.Join(t.TempDir(), "own.tach")
	s, err := profiler.Open(profiler.Output(own))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	url, _ := program(t, Handler())
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.Flag("headless", "new"), chromedp.Flag("disable-gpu", true))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	ctx, cancel := chromedp.NewContext(allocator)
	defer cancel()
	ctx, end := context.WithTimeout(ctx, 2*time.Minute)
	defer end()
	wait := func(expression string) {
		t.Helper()
		if _, err := chromedp.Run(ctx, chromedp.Poll[bool]("!!("+expression+")", chromedp.WithPollingTimeout(time.Minute))); err != nil {
			text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`))
			t.Fatalf("%s: %v\n%s", expression, err, text)
		}
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	wait(`[...document.querySelectorAll('#functions tbody button')].some((b) => b.textContent.endsWith('httpprof/ui.work'))`)
	wait(`!document.getElementById('fact-list').textContent.includes('not stopped')`)
	wait(`document.getElementById('live-note').textContent.includes('is being recorded')`)
	length := `document.getElementById('sums').textContent`
	before, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.hash = 'r=0.' + 10 * gotach.width; `+length))
	if err != nil {
		t.Fatal(err)
	}
	wait(length + ` !== ` + fmt.Sprintf("%q", before))
	wait(`gotach.settings().range && gotach.settings().range[0] === 0 && gotach.settings().range[1] === 10000`)
	if err := s.Stop(); err != nil { // the recording ends with the session
		t.Fatal(err)
	}
	r, err := reader.Open(own)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Unfinished() || r.Header().Samples == 0 {
		t.Errorf("the session's own file: %+v", r.Header())
	}
}

// TestRecording: without a session the handler runs one. It ends at its limit, can be started again, and is removed when
// nobody asks.
func TestRecording(t *testing.T) {
	u := Handler(profiler.Source(profiler.Portable), profiler.Rate(100))
	u.l = limits{length: 700 * time.Millisecond, size: 1 << 20, unasked: time.Minute, kept: 2 * time.Second, look: 10 * time.Millisecond}
	url, temp := program(t, u)
	if code, body := get(t, url+"data/status"); code != http.StatusGone {
		t.Errorf("before the page is opened: %d %s", code, body)
	}
	if code, body := get(t, url); code != http.StatusOK || !strings.HasPrefix(body, "<!doctype html>") {
		t.Fatalf("the page: %d %.100s", code, body)
	}
	if _, err := profiler.Open(profiler.Output(filepath.Join(t.TempDir(), "x.tach"))); err == nil {
		t.Error("there are two sessions")
	}
	s := status(t, url, 0, func(s *page.Status) bool { return s.Again && s.Head != nil && !s.Growing && s.Progress == "" })
	if d := s.Head.Sides[0].Duration; d < 600*time.Millisecond || s.Head.Sides[0].Samples == 0 || len(s.Head.Sides[0].Facts) == 0 {
		t.Errorf("the recording is %+v", s.Head.Sides[0])
	}
	if code, _ := get(t, url); code != http.StatusOK {
		t.Fatal("the page of a recording that has ended: ", code)
	}
	if !status(t, url, 0, func(s *page.Status) bool { return true }).Again {
		t.Error("loading the page again began a recording")
	}
	if code, body := get(t, url+"?new=1"); code != http.StatusOK {
		t.Fatalf("a new recording: %d %s", code, body)
	}
	if second := status(t, url, 0, func(s *page.Status) bool { return s.Head != nil }); !second.Head.Sides[0].Start.After(s.Head.Sides[0].Start) {
		t.Errorf("the second recording began at %v, the first at %v", second.Head.Sides[0].Start, s.Head.Sides[0].Start)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		left, err := os.ReadDir(temp)
		if err == nil && len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("nobody asks for it, but it is there: %v, %v", left, err)
		}
	}
	if err := u.Close(); err != nil {
		t.Error(err)
	}
	if code, _ := get(t, url); code != http.StatusServiceUnavailable {
		t.Errorf("after Close: %d", code)
	}
}

// TestRefused: other names and other websites get nothing and start nothing.
func TestRefused(t *testing.T) {
	u := Handler(profiler.Source(profiler.Portable))
	u.Hosts = []string{"debug.example.com"}
	url, temp := program(t, u)
	for _, c := range []struct {
		name, path string
		header     []string
		want       int
	}{
		{"a name that was made to point here", "", []string{"Host", "evil.example"}, 403},
		{"data by that name", "data/status", []string{"Host", "evil.example:8080"}, 403},
		{"a link of another site, without a recording", "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 410},
		{"a frame of another site", "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 410},
		{"another site's script", "?new=1", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, 410},
	} {
		if code, body := get(t, url+c.path, c.header...); code != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, code, body, c.want)
		}
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("somebody began %v", left)
	}
	for _, host := range []string{"localhost:80", "LOCALHOST", "[::1]:6060", "10.1.2.3", "debug.example.com:443"} {
		if code, body := get(t, url, "Host", host); code != http.StatusOK {
			t.Errorf("%s: %d %s", host, code, body)
		}
	}
	for _, c := range [][]string{{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, {"Origin", "http://evil.example"}} {
		if code, body := get(t, url+"data/status", c...); code != http.StatusForbidden {
			t.Errorf("%v: %d %s", c, code, body)
		}
	}
	r, err := http.Post(url, "text/plain", strings.NewReader("x"))
	if err != nil || r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a write: %v, %v", r, err)
	}
	r.Body.Close()
}
