package requests

import (
	"fmt"
	"regexp"
	"slices"
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
	x := out.Repeats[0]
	testenv.Same(t, "repeats", fmt.Sprintf("%d: %s:%d %s, %d waits of %d requests, %v, %v each", len(out.Repeats), x.Func, x.Line, x.State, x.Waits, x.Requests, x.Time, x.Each()),
		"1: main.name:41 IO wait, 200 waits of 40 requests, 200ms, 5 each")
	// Where nobody knows whose the goroutines of requests are, waits may be of several requests.
	testenv.Same(t, "repeats without parents", len(repeated(t, 0).Repeats), 0)
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
	return testenv.Must(Find(r.Close(), Options{}))
}

// The lengths of requests are those of the server's log, and what the slow ones do more is the longer path.
func TestRequestsOfSessions(t *testing.T) {
	for _, name := range []string{"requests", "requests-default-budget", "requests-short", "leaky-server"} {
		t.Run(name, func(t *testing.T) {
			s := analyzetest.OpenSession(t, "../testdata/sessions", name)
			r := testenv.Must(Find(s.Samples(t), Options{Slowest: analyzetest.Slowest}))
			for _, p := range []struct {
				q   float64
				got time.Duration
			}{{0.5, r.P50}, {0.9, r.P90}, {0.99, r.P99}} {
				want := s.Logged(p.q)
				if p.got > 0 {
					testenv.Within(t, p.q, p.got, want-max(2*time.Millisecond, want/20), want+max(2*time.Millisecond, want/20))
				}
			}
			if n := len(s.Truth.Requests); 10*max(r.Count-n, n-r.Count) > n || n < r.Low-1 || r.High > 0 && n > r.High+1 {
				t.Errorf("%+v requests, the log has %d", r.Number, n)
			}
			// Requests follow at once. They are told apart, and so are calls of a function in them.
			handler := Options{Func: regexp.MustCompile(`^main\.(serve|leakyServer)\.func2$`)}
			if calls := testenv.Must(Find(s.Samples(t), handler)); calls.Lower != nil || 20*max(calls.Seen-r.Seen, r.Seen-calls.Seen) > r.Seen {
				t.Errorf("%d calls of the handler, %d requests; %+v", calls.Seen, r.Seen, calls.Lower)
			}
			list := testenv.Must(readFinder(s.Samples(t), Options{})).lengths(false)
			wrong := slices.DeleteFunc(slices.Clone(list), func(x *request) bool { return int64(x.after-x.before) >= s.Truth.Requests[0][0] })
			testenv.Within(t, "requests that take less than the shortest one", len(wrong), 0, len(list)/100)
			if d := r.Difference; name != "leaky-server" && (d[0].Name != "main.longPath" || d[0].State != "sleep") {
				t.Errorf("the first difference is %+v", d)
			}
		})
	}
}
