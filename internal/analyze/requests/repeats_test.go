package requests

import (
	"regexp"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// Requests that wait five times at one line, and once at another for as long. That a wait ended is known from the mark Moved, or from
// a sample elsewhere.
func TestRepeats(t *testing.T) {
	out := repeated(t, 7)
	if len(out.Repeats) != 1 {
		t.Fatalf("%+v", out.Repeats)
	}
	x := out.Repeats[0]
	if x.Func != "main.name" || x.Line != 41 || x.State != "IO wait" || x.Waits != 200 || x.Requests != 40 || x.Time != 200*time.Millisecond || x.Each() != 5 {
		t.Errorf("%+v", x)
	}
	// Where nobody knows whose the goroutines of requests are, waits may be of several requests.
	if out := repeated(t, 0); len(out.Repeats) != 0 {
		t.Errorf("%+v", out.Repeats)
	}
}

// repeated finds requests of goroutine 7. Those that read in the background meanwhile have a parent.
func repeated(t *testing.T, parent uint64) *Requests {
	r := analyzetest.Record(t)
	in := func(why, function string, line int32) []tachyon.Frame {
		return []tachyon.Frame{analyzetest.Wait(why), analyzetest.Place(function, line), analyzetest.Place("net/http.serverHandler.ServeHTTP", 9), analyzetest.Place("net/http.(*conn).serve", 7)}
	}
	at := uint64(1000)
	for n := range uint64(40) {
		r.Goroutine(tachyon.Goroutine{ID: 100 + n, Parent: parent, CreatedBy: analyze.BackgroundRead, First: at + 1000, Last: at + 11_000, FirstWeight: 1000})
		for range 5 {
			at += 1000
			r.Add(7, at, tachyon.Moved, in("IO wait", "main.name", 41)...)
		}
		at += 1000
		r.Add(7, at, analyzetest.Running, in("", "main.name", 42)[1:]...)
		for range 5 {
			at += 1000
			r.Add(7, at, 0, in("IO wait", "main.list", 12)...)
		}
		at += 1000
		r.Add(7, at, 0, connIdle...)
	}
	return analyzetest.Must(Find(r.Close(), Options{}))(t)
}

// The lengths of requests are those of the server's log, and what the slow ones do more is the longer path.
func TestRequestsOfSessions(t *testing.T) {
	for _, name := range []string{"requests", "requests-default-budget", "requests-short", "leaky-server"} {
		t.Run(name, func(t *testing.T) {
			s := analyzetest.OpenSession(t, "../testdata/sessions", name)
			r := analyzetest.Must(Find(s.Samples(t), Options{Slowest: analyzetest.Slowest}))(t)
			for _, p := range []struct {
				q   float64
				got time.Duration
			}{{0.5, r.P50}, {0.9, r.P90}, {0.99, r.P99}} {
				want := s.Logged(p.q)
				if (p.got-want).Abs() > max(2*time.Millisecond, want/20) && p.got > 0 {
					t.Errorf("p%v is %v, the log says %v", 100*p.q, p.got, want)
				}
			}
			if n := len(s.Truth.Requests); 10*max(r.Count-n, n-r.Count) > n || n < r.Low-1 || r.High > 0 && n > r.High+1 {
				t.Errorf("%+v requests, the log has %d", r.Number, n)
			}
			// Requests follow at once. They are told apart, and so are calls of a function in them.
			handler := Options{Func: regexp.MustCompile(`^main\.(serve|leakyServer)\.func2$`)}
			if calls := analyzetest.Must(Find(s.Samples(t), handler))(t); calls.Lower != nil || 20*max(calls.Seen-r.Seen, r.Seen-calls.Seen) > r.Seen {
				t.Errorf("%d calls of the handler, %d requests; %+v", calls.Seen, r.Seen, calls.Lower)
			}
			list := testenv.Must(readFinder(s.Samples(t), Options{})).lengths(false)
			wrong := 0
			for _, x := range list {
				if int64(x.after-x.before) < s.Truth.Requests[0][0] {
					wrong++
				}
			}
			if 100*wrong > len(list) {
				t.Errorf("%d of %d requests take less than the shortest one", wrong, len(list))
			}
			if d := r.Difference; name != "leaky-server" && (d[0].Name != "main.longPath" || d[0].State != "sleep") {
				t.Errorf("the first difference is %+v", d)
			}
		})
	}
}
