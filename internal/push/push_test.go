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
	"time"

	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"

	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/writer"
)

// All finished files and those of killed programs are sent, each once, and files that a program writes are not.
func TestPush(t *testing.T) {
	dir := t.TempDir()
	fleet(t, dir, 3, 2)
	killed := filepath.Join(dir, "killed.tach")
	process{pid: 7, program: "gone"}.file(t, killed, 1, false)
	want := profiled(t, dir)
	w, err := writer.Create(filepath.Join(dir, "live.tach"), writer.Options{Start: startMicros, Interval: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, name := range []string{"empty.tach", ".hidden.tach", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-time.Hour)
	for _, name := range []string{killed, killed + ".journal", filepath.Join(dir, "live.tach"), filepath.Join(dir, "live.tach.journal")} {
		if err := os.Chtimes(name, long, long); err != nil {
			t.Fatal(err)
		}
	}
	r := newReceiver(t)
	o := r.options(t, dir)
	for round := range 3 {
		if err := push(t, o); err != nil {
			t.Fatal(err)
		}
		if err := same(want, r.sums()); err != nil {
			t.Error(err)
		}
		if n := o.Metrics.Files("sent"); r.repeats > 0 || r.requests != 7 || n != 7 {
			t.Errorf("round %d: %d repeats, %d requests, %d files sent", round, r.repeats, r.requests, n)
		}
		switch round {
		case 0: // the same file under another name, and with another time
			if err := os.Rename(filepath.Join(dir, "p0", "app.1.tach"), filepath.Join(dir, "moved.tach")); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(filepath.Join(dir, "p1", "app.1.tach"), long, long); err != nil {
				t.Fatal(err)
			}
		case 1:
			if _, err := recovery.Finish(killed); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := push(t, o); err != nil || o.Metrics.Files("sent") != 8 {
		t.Errorf("after the live file was finished: %v, %d files sent", err, o.Metrics.Files("sent"))
	}
}

// A Pusher that runs sends what comes, notes what is deleted under it, and ends when it is told to.
func TestPushRuns(t *testing.T) {
	dir := t.TempDir()
	r := newReceiver(t)
	down := atomic.Bool{}
	r.fault = func(w http.ResponseWriter, _ *http.Request, _ *pb.ProfilesData) bool {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return down.Load()
	}
	o := r.options(t, dir)
	o.Once = false
	log := &testenv.Log{}
	o.Log = log.Logger()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(o); !errors.Is(err, ErrInUse) {
		t.Errorf("a second Pusher: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	fleet(t, dir, 2, 2)
	want := profiled(t, dir)
	testenv.Await(func() bool { return o.Metrics.Files("sent") == 4 })
	if err := same(want, r.sums()); err != nil {
		t.Error(err)
	}
	down.Store(true)
	gone := filepath.Join(dir, "gone.tach")
	process{pid: 7, program: "gone"}.file(t, gone, 1, true)
	process{pid: 8, program: "stays"}.file(t, filepath.Join(dir, "stays.tach"), 1, true)
	before := r.count()
	testenv.Await(func() bool { return r.count() > before+5 })
	remove(t, gone)
	down.Store(false)
	testenv.Await(func() bool { return o.Metrics.Files("sent") == 5 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := same(profiled(t, dir), r.sums()); err != nil {
		t.Error(err)
	}
	if text := strings.Join(log.Lines(), "\n"); !strings.Contains(text, "sends again") || strings.Count(text, "cannot send now") != 1 {
		t.Errorf("logged:\n%s", text)
	}
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// When a Pusher is told to end, it finishes the present batch if that takes not too long.
func TestPushDrains(t *testing.T) {
	for _, c := range []struct {
		name string
		slow time.Duration
		sent int64
	}{{"soon", 300 * time.Millisecond, 1}, {"never", time.Hour, 0}} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			fleet(t, dir, 1, 1)
			r := newReceiver(t)
			entered, over := make(chan bool, 1), make(chan bool)
			t.Cleanup(func() { close(over) })
			r.fault = func(http.ResponseWriter, *http.Request, *pb.ProfilesData) bool {
				entered <- true
				select {
				case <-time.After(c.slow):
				case <-over:
				}
				return false
			}
			o := r.options(t, dir)
			if o.Drain = 10 * time.Second; c.sent == 0 {
				o.Drain = 100 * time.Millisecond
			}
			p, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-entered; cancel() }()
			err = p.Run(ctx)
			if n := o.Metrics.Files("sent"); n != c.sent || (err == nil) != (c.sent == 1) {
				t.Errorf("%d files sent, want %d; %v", n, c.sent, err)
			}
		})
	}
}
