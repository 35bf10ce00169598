package push

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"

	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/writer"
)

// All finished files and those of killed programs are sent, each once, and files that a program writes are not.
func TestPush(t *testing.T) {
	dir, r, o := received(t, 3, 2)
	r.serve(t, &o)
	killed, live := filepath.Join(dir, "killed.tach"), filepath.Join(dir, "live.tach")
	process{pid: 7, program: "gone"}.file(t, killed, 1, false)
	want := profiled(t, dir)
	w := testenv.Must(writer.Create(live, writer.Options{Start: startMicros, Interval: 1000}))
	defer w.Close()
	for _, name := range []string{"empty.tach", ".hidden.tach", "notes.txt"} {
		must(os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	long := time.Now().Add(-time.Hour)
	for _, name := range []string{killed, killed + ".journal", live, live + ".journal"} {
		must(os.Chtimes(name, long, long))
	}
	for round := range 3 {
		must(push(t, o))
		r.check(t, want, 0)
		if n := o.Metrics.Files("sent"); r.requests != 7 || n != 7 {
			t.Errorf("round %d: %d requests, %d files sent", round, r.requests, n)
		}
		switch round {
		case 0: // the same file under another name, and with another time
			must(os.Rename(filepath.Join(dir, "p0", "app.1.tach"), filepath.Join(dir, "moved.tach")))
			must(os.Chtimes(filepath.Join(dir, "p1", "app.1.tach"), long, long))
		case 1:
			testenv.Must(recovery.Finish(killed))
		}
	}
	must(errors.Join(w.Close(), push(t, o)))
	testenv.Same(t, "files sent after the live one was finished", o.Metrics.Files("sent"), 8)
}

// A Pusher that runs sends what comes, goes on when a file is deleted under it, and ends when it is told to.
func TestPushRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, r, o := received(t, 2, 2)
		var down atomic.Bool
		r.fault = func(w http.ResponseWriter, _ *http.Request, _ *pb.ProfilesData) bool {
			if down.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return down.Load()
		}
		log := &testenv.Log{}
		o.Once, o.Log, o.MaxBackoff = false, log.Logger(), 0
		p := testenv.Must(New(o))
		if _, err := New(o); !errors.Is(err, ErrInUse) {
			t.Errorf("a second Pusher: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Run(ctx) }()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		r.check(t, profiled(t, dir), 0)
		down.Store(true)
		gone := filepath.Join(dir, "gone.tach")
		process{pid: 7, program: "gone"}.file(t, gone, 1, true)
		process{pid: 8, program: "stays"}.file(t, filepath.Join(dir, "stays.tach"), 1, true)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := r.requests; n < 4+10 || o.Metrics.Files("sent") != 4 {
			t.Errorf("%d requests, %d files sent while the target was down", n, o.Metrics.Files("sent"))
		}
		must(os.Remove(gone))
		down.Store(false)
		time.Sleep(2 * time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		r.check(t, profiled(t, dir), 0)
		text := strings.Join(log.Lines(), "\n")
		for line, most := range map[string]int{"sends again": 1, "cannot send now": 11} {
			if n := strings.Count(text, line); n == 0 || n > most {
				t.Errorf("%q was logged %d times, want at most one a minute:\n%s", line, n, text)
			}
		}
	})
}

// When a Pusher is told to end, it finishes the present batch if that takes not too long.
func TestPushDrains(t *testing.T) {
	for _, c := range []struct {
		slow, took time.Duration
		sent       int64
	}{{1999 * time.Millisecond, 1999 * time.Millisecond, 1}, {time.Hour, 2 * time.Second, 0}} {
		synctest.Test(t, func(t *testing.T) {
			_, r, o := received(t, 1, 1)
			ctx, cancel := context.WithCancel(t.Context())
			var told time.Time
			r.fault = func(_ http.ResponseWriter, req *http.Request, _ *pb.ProfilesData) bool {
				told = time.Now()
				cancel()
				select {
				case <-time.After(c.slow):
				case <-req.Context().Done():
				}
				return false
			}
			o.Target.(*otlpTarget).client.Timeout = 0
			p := testenv.Must(New(o))
			err := p.Run(ctx)
			if n, took := o.Metrics.Files("sent"), time.Since(told); n != c.sent || (err == nil) != (c.sent == 1) || took != c.took {
				t.Errorf("a batch of %v: %d files sent after %v, want %d after %v; %v", c.slow, n, took, c.sent, c.took, err)
			}
		})
	}
}
