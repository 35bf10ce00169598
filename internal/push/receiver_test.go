package push

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"
	"google.golang.org/protobuf/proto"

	"github.com/gotach/profiler/internal/stream"
)

// A receiver is an OTLP receiver. It recognises profiles that come twice by their ids.
type receiver struct {
	*httptest.Server
	// fault may answer a request itself; then it returns true. It is called before the profiles are kept.
	fault func(w http.ResponseWriter, r *http.Request, d *pb.ProfilesData) bool

	mu       sync.Mutex
	requests int
	repeats  int
	got      map[string]map[string]time.Duration // by process and start, and by type and id: the sum
	largest  int                                 // bytes of a message
	header   http.Header
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{got: map[string]map[string]time.Duration{}}
	r.Server = httptest.NewServer(r)
	r.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP takes a request.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	bad := func(err error) { http.Error(w, err.Error(), http.StatusTeapot) }
	if req.Method != http.MethodPost || req.URL.Path != otlpPath || req.Header.Get("Content-Type") != "application/x-protobuf" {
		bad(fmt.Errorf("%s %s of %s", req.Method, req.URL, req.Header.Get("Content-Type")))
		return
	}
	z, err := gzip.NewReader(req.Body)
	if err != nil {
		bad(err)
		return
	}
	b, err := io.ReadAll(z)
	var d pb.ProfilesData
	if err = errors.Join(err, proto.Unmarshal(b, &d)); err != nil {
		bad(err)
		return
	}
	r.mu.Lock()
	r.requests++
	r.header = req.Header
	r.mu.Unlock()
	if r.fault != nil && r.fault(w, req, &d) {
		return
	}
	r.keep(&d, len(b))
}

// keep keeps the profiles of a request.
func (r *receiver) keep(d *pb.ProfilesData, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.largest = max(r.largest, size)
	for _, p := range d.ResourceProfiles[0].ScopeProfiles[0].Profiles {
		name := origin(d, p)
		if r.got[name] == nil {
			r.got[name] = map[string]time.Duration{}
		}
		id := fmt.Sprintf("%s %x", d.Dictionary.StringTable[p.SampleType.TypeStrindex], p.ProfileId)
		if len(p.ProfileId) != 16 {
			panic("a profile without an id")
		}
		sum := time.Duration(0)
		for _, s := range p.Samples {
			sum += time.Duration(s.Values[0])
		}
		if before, ok := r.got[name][id]; ok {
			r.repeats++
			if before != sum {
				panic(fmt.Sprintf("profile %s came with %v and with %v", id, before, sum))
			}
		}
		r.got[name][id] = sum
	}
}

func origin(d *pb.ProfilesData, p *pb.Profile) string {
	pid := int64(0)
	for _, a := range d.ResourceProfiles[0].Resource.Attributes {
		if a.Key == "process.pid" {
			pid = a.Value.GetIntValue()
		}
	}
	return fmt.Sprintf("%d at %d", pid, p.TimeUnixNano/1000)
}

// sums returns what the receiver has, by process and start: wall time and CPU time, each profile once.
func (r *receiver) sums() map[string][2]time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string][2]time.Duration{}
	for name, list := range r.got {
		var sum [2]time.Duration
		for id, v := range list {
			if strings.HasPrefix(id, "wall ") {
				sum[0] += v
			} else {
				sum[1] += v
			}
		}
		out[name] = sum
	}
	return out
}

// profiled returns what the profiles in a directory have, as sums does.
func profiled(t testing.TB, dir string) map[string][2]time.Duration {
	t.Helper()
	entries, _, err := list(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][2]time.Duration{}
	for _, e := range entries {
		f, err := openFile(dir, filepath.FromSlash(e.name))
		if err != nil {
			t.Fatal(err)
		}
		var sum [2]time.Duration
		err = f.Read(stream.Options{}, func(src *stream.Source) error {
			for s, err := range src.Samples() {
				if err != nil {
					return err
				}
				sum[0] += s.Wall
				sum[1] += s.CPU()
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		out[fmt.Sprintf("%d at %d", f.PID, f.Start.UnixMicro())] = sum
	}
	return out
}

// options returns options for a directory and a receiver whose times are short.
func (r *receiver) options(t testing.TB, dir string) Options {
	t.Helper()
	u, err := url.Parse(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	m := NewMetrics()
	target, err := NewOTLP(u, TargetOptions{Metrics: m, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	return Options{
		Dir: dir, Target: target, Name: "otlp+" + r.URL, Once: true, Metrics: m,
		Interval: 20 * time.Millisecond, Backoff: 5 * time.Millisecond, MaxBackoff: 50 * time.Millisecond, Tries: 1000,
	}
}

// push pushes a directory.
func push(t testing.TB, o Options) error {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return p.Run(ctx)
}

// fleet writes the files of some processes.
func fleet(t testing.TB, dir string, processes, files int) {
	t.Helper()
	for n := range processes {
		p := process{pid: 100 + n, program: "shop", labels: 3}
		for part := range files {
			p.file(t, filepath.Join(dir, fmt.Sprintf("p%d", n), fmt.Sprintf("app.%d.tach", part+1)), part+1, true)
		}
	}
}

func same(a, b map[string][2]time.Duration) error {
	var errs []error
	for k, v := range a {
		if b[k] != v {
			errs = append(errs, fmt.Errorf("%s: %v and %v", k, v, b[k]))
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			errs = append(errs, fmt.Errorf("%s is too much", k))
		}
	}
	return errors.Join(errs...)
}

func remove(t testing.TB, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
