package httpprof_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/httpprof"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// While a session runs, a profile of the next seconds is taken from it. It has labels and creators
// of goroutines that began long before it, and only its own time. The session goes on as before.
func TestRunningSession(t *testing.T) {
	for _, kind := range []profiler.SourceKind{profiler.Auto, profiler.Portable} {
		t.Run(string(kind), func(t *testing.T) {
			pprof.Do(t.Context(), pprof.Labels("kind", "early"), func(context.Context) { load(t) })
			out := filepath.Join(t.TempDir(), "x.tach")
			s, err := profiler.Open(profiler.Output(out), profiler.Source(kind))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Stop()
			time.Sleep(300 * time.Millisecond)
			labels := s.Stats().Source == "native"
			begin := time.Now()
			code, body, _ := get(t, httpprof.Handler(), "/?seconds=1&format=tach")
			took := time.Since(begin)
			if code != http.StatusOK {
				t.Fatalf("status %d: %s", code, body)
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
			// On a busy machine it may end later, and the last samples may be missing.
			if d := m.Session.Duration; d < 500*time.Millisecond || d > took || m.Session.Start.Before(begin.Add(-time.Millisecond)) ||
				m.Session.Samples != int64(r.Header().Samples) || m.Session.TicksReached == 0 || m.Session.TicksReached > m.Session.TicksAsked+100 {
				t.Errorf("after %v the session is %+v, the header %+v", took, m.Session, r.Header())
			}
			for name, d := range checkLoad(t, r, m, labels, true) {
				if d < m.Session.Duration*8/10 || d > m.Session.Duration+5*time.Millisecond {
					t.Errorf("%s took %v of %v", name, d, m.Session.Duration)
				}
			}
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			whole, err := reader.Open(out)
			if err != nil {
				t.Fatal(err)
			}
			defer whole.Close()
			if m, err = whole.Metadata(); err != nil {
				t.Fatal(err)
			}
			for name, d := range checkLoad(t, whole, m, labels, false) {
				if d < m.Session.Duration*8/10 || d < took {
					t.Errorf("in the session's own file %s took %v of %v", name, d, m.Session.Duration)
				}
			}
		})
	}
}

// checkLoad returns the times of load's two functions. It checks creators and labels of their goroutines.
// part says that these began before the profile.
func checkLoad(t *testing.T, r *reader.Reader, m *tachyon.Metadata, labels, part bool) map[string]time.Duration {
	t.Helper()
	times, ids := map[string]time.Duration{}, map[uint64]bool{}
	for s, err := range reader.Weighted(r) {
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range s.Stack {
			if _, name, _ := strings.Cut(r.Frames()[id].Func, ".handlerTest"); name != "" {
				times[name] += s.Wall()
				ids[s.Thread] = true
			}
		}
	}
	if len(times) != 2 || len(ids) != 2 {
		t.Errorf("goroutines %v, times %v", ids, times)
	}
	for _, g := range m.Goroutines {
		if !ids[g.ID] {
			continue
		}
		delete(ids, g.ID)
		if !strings.HasSuffix(g.CreatedBy, "httpprof_test.load") || labels && (len(g.Labels) != 1 || (part && g.Labels[0].From != 0) || g.Labels[0].Labels["kind"] != "early") {
			t.Errorf("goroutine %+v", g)
		}
	}
	if len(ids) > 0 {
		t.Errorf("nothing is known of the goroutines %v", ids)
	}
	return times
}

// One profile at a time is taken of a session.
func TestRunningSessionOnce(t *testing.T) {
	s, err := profiler.Open(profiler.Output(filepath.Join(t.TempDir(), "x.tach")))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	h := httpprof.Handler()
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan struct{})
	go func() {
		defer close(first)
		req, _ := http.NewRequestWithContext(ctx, "GET", "/", nil)
		h.ServeHTTP(discard{}, req)
	}()
	for list := []string{}; len(list) == 0; list, _ = filepath.Glob(temp + "/*/*.tach") {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	code, body, _ := get(t, h, "/?seconds=1")
	if code != http.StatusServiceUnavailable || !strings.Contains(string(body), "another reader follows") {
		t.Errorf("a second profile: status %d: %s", code, body)
	}
	cancel() // as if the client had gone
	<-first
	if code, body, _ := get(t, h, "/?seconds=1"); code != http.StatusOK {
		t.Errorf("after it: status %d: %s", code, body)
	}
	if left, _ := os.ReadDir(temp); len(left) != 0 {
		t.Errorf("left in the temporary directory: %v", left)
	}
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// If the session ends meanwhile, the profile has the time until then.
func TestRunningSessionStops(t *testing.T) {
	load(t)
	s, err := profiler.Open(profiler.Output(filepath.Join(t.TempDir(), "x.tach")))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(300*time.Millisecond, func() { s.Stop() })
	code, body, _ := get(t, httpprof.Handler(), "/?seconds=1&format=folded")
	if code != http.StatusOK || !bytes.Contains(body, []byte("handlerTestNap")) {
		t.Errorf("status %d: %s", code, body)
	}
}
