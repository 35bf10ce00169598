//go:build measure

package httpprof

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/felixge/fgprof"
	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
)

// TestMeasureRequests: requests at random times, of 1 or 2 s and at night up to 5, a third of which is given up, beside a session and without. Each other one
// gets its whole time, and nothing is left. Meanwhile the program answers others about as fast as beside the same requests for fgprof's
// profiles. A handler that computes as long as the conversion of a profile takes has the same effect on two cores.
func TestMeasureRequests(t *testing.T) {
	n := testenv.Times(20, 1000)
	for _, running := range []bool{true, false} {
		if !running && n == 20 {
			break // a minute
		}
		t.Run(fmt.Sprint(running), func(t *testing.T) {
			load(t)
			if running {
				s := testenv.Must(profiler.Open(profiler.Output(filepath.Join(t.TempDir(), "x.tach"))))
				defer s.Stop()
			}
			temp := temporary(t)
			mux := http.NewServeMux()
			mux.Handle("/profile", Handler())
			mux.Handle("/fgprof", fgprof.Handler())
			mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello, world") })
			server := httptest.NewServer(mux)
			defer server.Close()
			once := func() float64 {
				before := p99(t, server.URL, 2*time.Second, nil)
				counts := counted()
				var check func()
				during := p99(t, server.URL, 0, func() { check = requests(t, server.URL+"/profile?format=tach&", n) })
				peer := p99(t, server.URL, 0, func() { requests(t, server.URL+"/fgprof?", n) })
				check()
				http.DefaultClient.CloseIdleConnections()
				left := func() bool { now := counted(); return now[0] > counts[0] || now[1] > counts[1] }
				if testenv.Await(func() bool { return !left() }); left() {
					t.Errorf("goroutines, descriptors: %v, before %v", counted(), counts)
				}
				none(t, temp)
				threads := testenv.Must(os.ReadDir("/proc/self/task"))
				t.Logf("p99 without %v, with %v, with fgprof's handler %v; %d threads", before, during, peer, len(threads))
				return float64(during-peer) / float64(time.Millisecond)
			}
			if n == 1000 { // minutes
				t.Logf("p99: %.2f ms more than with fgprof", once())
				return
			}
			measure.AtMost(t, "p99 of a handler beside requests for profiles, against fgprof's", "ms more", 1, once)
		})
	}
}

// counted returns the numbers of goroutines and descriptors.
func counted() [2]int {
	http.DefaultClient.CloseIdleConnections()
	return [2]int{runtime.NumGoroutine(), len(testenv.Must(os.ReadDir("/proc/self/fd")))}
}

// p99 returns the time that 99 of 100 requests take at most, until f returns or for some time.
func p99(t *testing.T, url string, d time.Duration, f func()) time.Duration {
	var over atomic.Bool
	go func() {
		defer over.Store(true)
		time.Sleep(d)
		if f != nil {
			f()
		}
	}()
	var took []time.Duration
	for !over.Load() {
		begin := time.Now()
		r := testenv.Must(http.Get(url + "/hello"))
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
		took = append(took, time.Since(begin))
		time.Sleep(2 * time.Millisecond)
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// requests makes n requests to a URL that ends before its parameters, at random times. The result checks their answers, which takes more time than a client needs.
func requests(t *testing.T, url string, n int) (check func()) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var checks []func()
	var whole, gone, busy atomic.Int64
	begin := time.Now()
	for range n {
		seconds := time.Duration(1+rand.IntN(testenv.Times(2, 5))) * time.Second
		givenUp := time.Duration(0)
		if rand.IntN(3) == 0 {
			givenUp = rand.N(seconds)
		}
		time.Sleep(rand.N(150 * time.Millisecond))
		all.Go(func() {
			ctx := t.Context()
			if givenUp > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, givenUp)
				defer cancel()
			}
			a := answer{begin: time.Now()}
			r, err := http.DefaultClient.Do(testenv.Must(http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%sseconds=%d", url, seconds/time.Second), nil)))
			if err == nil {
				defer r.Body.Close()
				a.code = r.StatusCode
				a.body, err = io.ReadAll(r.Body)
			}
			a.end = time.Now()
			switch {
			case givenUp > 0 && err != nil:
				gone.Add(1)
			case err != nil:
				t.Error(err)
			case strings.Contains(url, "fgprof"): // it is not what is checked
				whole.Add(1)
			case a.code == http.StatusServiceUnavailable && r.Header.Get("Retry-After") != "":
				busy.Add(1)
			default:
				whole.Add(1)
				mu.Lock()
				checks = append(checks, func() {
					waited := checkWindow(t, a, seconds)
					testenv.FailIf(t, waited < seconds-50*time.Millisecond, "a goroutine that waited for all of %v has %v", seconds, waited)
				})
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("in %v: %d whole, %d given up, %d refused", time.Since(begin).Round(time.Second), whole.Load(), gone.Load(), busy.Load())
	return func() {
		for _, check := range checks {
			check()
		}
	}
}
