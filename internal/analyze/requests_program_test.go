package analyze

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/reader"
)

// A server in which 3 of 100 requests take a longer path, with connections that stay open. It keeps a log
// of how long each request took. On a busy machine ticks are late, and calls with no tick between them look
// like one, so only the median is compared.
func TestRequestsOfProgram(t *testing.T) {
	var mu sync.Mutex
	var log []uint64 // µs
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		begin := time.Now()
		mu.Lock()
		n := len(log)
		log = append(log, 0)
		mu.Unlock()
		usualPath()
		if n%100 < 3 {
			longPath()
		}
		_, _ = io.WriteString(w, "done")
		mu.Lock()
		log[n] = uint64(time.Since(begin).Microseconds())
		mu.Unlock()
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "server.tach")
	session, err := profiler.Open(profiler.Output(path), profiler.Budget(100))
	if err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			client := server.Client()
			for begin := time.Now(); time.Since(begin) < 4*time.Second; {
				r, err := client.Get(server.URL)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				r.Body.Close()
				time.Sleep(15 * time.Millisecond)
			}
		})
	}
	clients.Wait()
	err = session.Stop()
	if err != nil {
		t.Fatal(err)
	}
	f, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := f.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	late := float64(m.Session.TicksAsked) / float64(max(1, m.Session.TicksReached)) // 1 on a machine without other work
	r, err := FindRequests(samplesOf(t, stream.Options{Labels: true}, f), RequestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.2f ticks asked for each one reached, %d requests\n%+v", late, len(log), r)
	slices.Sort(log)
	want := micros(quantile(log, 0.5))
	t.Logf("median %v, log: %v; p90 %v, log: %v", r.P50, want, r.P90, micros(quantile(log, 0.9)))
	if off := (r.P50 - want).Abs(); off > want/20 && off > time.Duration(late*late*2*float64(time.Millisecond)) {
		t.Errorf("the median is %v, the log says %v", r.P50, want)
	}
	if float64(r.Count) < 0.7*float64(len(log))/late || r.Count > len(log) {
		t.Errorf("%d requests of %d", r.Count, len(log))
	}
	if len(r.Difference) == 0 || r.Difference[0].Name != "github.com/gotach/profiler/internal/analyze.longPath" || r.Difference[0].State != "sleep" {
		t.Errorf("the first difference is %+v", r.Difference)
	}
}

func usualPath() { time.Sleep(8 * time.Millisecond) }

func longPath() { time.Sleep(200 * time.Millisecond) }
