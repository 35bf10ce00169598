package analyze

import (
	"cmp"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// A server keeps a log of how long each request took. A few of 100 requests take a longer path. Connections
// stay open and requests follow at once. Beside them are 1,500 leaked goroutines.
type server struct {
	usual   time.Duration
	long    int // of 100 requests
	clients int
	options []profiler.Option
}

// A served is a request in the log: how long it took, and what of that was in the longer path.
type served struct{ all, long uint64 } // µs

func (x server) run(t *testing.T, length time.Duration) (path string, r *Requests, log []served, m *tachyon.Session) {
	t.Helper()
	leaked := make(chan int)
	defer close(leaked)
	for range 1500 {
		go func() { <-leaked }()
	}
	var mu sync.Mutex
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		begin := time.Now()
		mu.Lock()
		n++
		long := n%100 < x.long
		mu.Unlock()
		usualPath(x.usual)
		usual := time.Since(begin)
		if long {
			longPath()
		}
		_, _ = io.WriteString(w, "done")
		all := time.Since(begin)
		mu.Lock()
		log = append(log, served{uint64(all.Microseconds()), uint64((all - usual).Microseconds())})
		mu.Unlock()
	}))
	defer server.Close()
	path = filepath.Join(t.TempDir(), "server.tach")
	session, err := profiler.Open(append(x.options, profiler.Output(path))...)
	if err != nil {
		t.Fatal(err)
	}
	requestAll(t, x.clients, server.URL, length)
	if err := session.Stop(); err != nil {
		t.Fatal(err)
	}
	f, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	if r, err = FindRequests(samplesOf(t, stream.Options{Labels: true}, f), RequestOptions{Slowest: slowest}); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(log, func(a, b served) int { return cmp.Compare(a.all, b.all) })
	return path, r, log, all.Session
}

// requestAll sends requests from clients that keep their connections.
func requestAll(t *testing.T, count int, url string, length time.Duration) {
	t.Helper()
	var clients sync.WaitGroup
	for range count {
		clients.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for begin := time.Now(); time.Since(begin) < length; {
				r, err := client.Get(url)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				r.Body.Close()
			}
		})
	}
	clients.Wait()
}

// slowest is the share of requests that are slow here. On a busy machine others than those of the longer path
// are slow too.
const slowest = 0.03

const longPathName = "github.com/gotach/profiler/internal/analyze.longPath"

func TestRequestsOfProgram(t *testing.T) {
	for name, x := range map[string]server{
		"default budget": {25 * time.Millisecond, 5, 4, nil},
		"all ticks":      {8 * time.Millisecond, 5, 4, []profiler.Option{profiler.Budget(10)}},
		"one of 100":     {6 * time.Millisecond, 1, 4, []profiler.Option{profiler.Budget(10)}},
	} {
		path, r, log, m := x.run(t, 4*time.Second)
		at := func(q float64) time.Duration { return micros(log[int(q*float64(len(log)-1))].all) }
		// If the machine is busy, ticks are late and less is known.
		gap := m.Duration / time.Duration(max(1, m.TicksReached))
		t.Logf("%s: %v between two ticks; %d requests of %d, about %d; %d too short", name, gap, r.Count, len(log), r.Estimated, r.TooShort)
		for _, p := range []struct {
			what         string
			got          time.Duration
			q, low, high float64 // An estimate has an error of chance too.
		}{{"p50", r.P50, 0.5, 0.45, 0.55}, {"p90", r.P90, 0.9, 0.86, 0.94}, {"p99", r.P99, 0.99, 0.97, 0.998}} {
			low, high := at(p.low), at(p.high)
			allowed := max(2*time.Millisecond, at(p.q)/20, gap/2)
			if p.q > 0.9 {
				allowed += gap // few requests are above it; they do not make up for rare ticks
			}
			t.Logf("%s: %s is %v, log: %v, %v to %v", name, p.what, p.got, at(p.q), low, high)
			if p.got < low-allowed || p.got > high+allowed {
				t.Errorf("%s: %s is %v, the log says %v to %v", name, p.what, p.got, low, high)
			}
		}
		if r.Count > len(log)+len(log)/50 || float64(r.Estimated) < 0.8*float64(len(log)) || float64(r.Estimated) > 1.2*float64(len(log)) {
			t.Errorf("%s: %d requests, about %d; the log has %d", name, r.Count, r.Estimated, len(log))
		}
		// What the slow ones did more, by the log.
		did := func(share float64) (long, other float64) {
			for _, x := range log[len(log)-int(share*float64(len(log))):] {
				long += float64(x.long)
				other += float64(x.all-x.long) - float64(at(0.5).Microseconds())
			}
			return long, other
		}
		long, other := did(slowest)
		t.Logf("%s: of the slowest, the longer path took %.0f µs, and the rest took %.0f µs more than usual; %+v", name, long, other, r.Difference)
		// With few ticks in a request, some that follow at once count as a slow one.
		if long > 3*other && gap < x.usual/4 && (len(r.Difference) == 0 || r.Difference[0].Name != longPathName || r.Difference[0].State != "sleep") {
			t.Errorf("%s: the first difference is %+v", name, r.Difference)
		} else if long > other && !slices.ContainsFunc(r.Difference, func(d RequestDifference) bool { return d.Name == longPathName && d.Time > 0 }) {
			t.Errorf("%s: the differences are %+v", name, r.Difference)
		}
		patterns := []string{`^ +P50 +P90 +P99  REQUESTS\n.* HTTP handlers \(ServeHTTP\)$`, `\[chan receive\] \S*run\.func1  requests\S*:\d+$`}
		if long, other := did(0.01); long > 3*other && gap < x.usual/4 {
			patterns = append(patterns, `\+\S+ in the slowest 1 %: \[sleep\] \S*longPath  requests\S*:\d+$`)
		}
		onFirstScreen(t, path, patterns...)
	}
}

// With GOTACH_REQUESTS=N the test measures for ten seconds, N times at each budget. 1 of 100 requests takes the
// longer path. A measurement during which the machine is busy does not count.
//
// There the 99th percentile lies just where the requests of the longer path begin: the next longer request may take
// five times as long, so it is only known to lie between requests of neighbouring ranks. By chance more or fewer of
// the longest requests may be among those that the profile does not have: their number is binomial. Any length
// between the log's requests two standard deviations below and above is right, as it would be if other requests of
// the same server had been logged.
func TestRequestsOneOfAHundred(t *testing.T) {
	runs, err := strconv.Atoi(cmp.Or(os.Getenv("GOTACH_REQUESTS"), "0"))
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]server{
		"default budget": {25 * time.Millisecond, 1, 4, nil},
		"short":          {6 * time.Millisecond, 1, 4, nil}, // most of them are shorter than the time between two ticks
		"all ticks":      {6 * time.Millisecond, 1, 4, []profiler.Option{profiler.Budget(10)}},
	} {
		for done, busy := 0, 0; done < runs; {
			_, r, log, m := x.run(t, 10*time.Second)
			n := float64(len(log))
			missed := n - float64(r.Count)
			at := func(rank float64) time.Duration { return micros(log[max(0, min(len(log)-1, int(rank)))].all) }
			if at(0.9*n) > x.usual+1500*time.Microsecond { // sleeps take longer, and ticks are late
				if busy++; busy > 10+runs {
					t.Fatalf("%s: the machine is busy", name)
				}
				continue
			}
			done++
			t.Logf("%s: %v between two ticks; %d requests of %d, about %d", name, m.Duration/time.Duration(max(1, m.TicksReached)), r.Count, len(log), r.Estimated)
			for _, p := range []struct {
				got time.Duration
				q   float64
			}{{r.P50, 0.5}, {r.P90, 0.9}, {r.P99, 0.99}} {
				chance := 1 + 2*math.Sqrt(max(0, missed)*p.q*(1-p.q)) // ranks
				want, low, high := at(p.q*(n-1)), at(p.q*(n-1)-chance), at(p.q*(n-1)+chance+1)
				allowed := max(2*time.Millisecond, want/20)
				t.Logf("%s: p%v is %v, log: %v, %v to %v", name, 100*p.q, p.got, want, low, high)
				if p.got < r.Short { // what is below the usual time between two samples is printed as being below it
					if low >= r.Short+allowed {
						t.Errorf("%s: p%v is below %v, the log says %v, from %v on", name, 100*p.q, r.Short, want, low)
					}
				} else if p.got < low-allowed || p.got > high+allowed {
					t.Errorf("%s: p%v is %v, the log says %v, %v to %v", name, 100*p.q, p.got, want, low, high)
				}
			}
			within := 0.1
			if x.usual < r.Short {
				within = 0.2 // most of those that have no sample are estimated
			}
			if off := float64(r.Estimated)/n - 1; math.Abs(off) > within {
				t.Errorf("%s: about %d requests, the log has %d", name, r.Estimated, len(log))
			}
			if d := r.Difference; len(d) == 0 || d[0].Name != longPathName || d[0].State != "sleep" {
				t.Errorf("%s: the first difference is %+v", name, d)
			}
		}
	}
}

//go:noinline
func usualPath(d time.Duration) { time.Sleep(d) }

//go:noinline
func longPath() { time.Sleep(50 * time.Millisecond) }
