package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/writer"

	pprof "github.com/google/pprof/profile"
	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"
)

// All finished files and those of killed programs are sent, each once, and files that a program writes are not.
func TestPush(t *testing.T) {
	dir, r, o := received(t, 3, 2)
	r.serve(t, &o)
	killed, live := filepath.Join(dir, "killed.tach"), filepath.Join(dir, "live.tach")
	process{pid: 7, program: "gone"}.file(t, killed, 1, false)
	want := profiled(t, dir)
	w := testenv.Closes(t, testenv.Must(writer.Create(live, writer.Options{Start: startMicros, Interval: 1000})))
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
		testenv.SameList(t, fmt.Sprint("requests and files sent in round ", round), []int{r.requests, int(o.Metrics.Files("sent"))}, []int{7, 7})
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
		testenv.Is(t, "a second Pusher", testenv.Err(New(o)), ErrInUse)
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
		testenv.FailIf(t, r.requests < 4+10, "%d requests while the target was down", r.requests)
		testenv.Same(t, "files sent before the target was down", o.Metrics.Files("sent"), 4)
		must(os.Remove(gone))
		down.Store(false)
		time.Sleep(2 * time.Minute)
		cancel()
		must(<-ended)
		r.check(t, profiled(t, dir), 0)
		text := strings.Join(log.Lines(), "\n")
		for line, most := range map[string]int{"sends again": 1, "cannot send now": 11} {
			testenv.Within(t, text+"\nhow often it says "+line, strings.Count(text, line), 1, most)
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
			testenv.Same(t, fmt.Sprint("how long a batch of ", c.slow, " took"), time.Since(told), c.took)
			testenv.Same(t, "files sent", o.Metrics.Files("sent"), c.sent)
			testenv.FailIf(t, (err == nil) != (c.sent == 1), "%d files sent: %v", c.sent, err)
		})
	}
}

// Pyroscope gets each file as a pprof profile in a form, with a name, its labels and its time. The sums are the file's.
func TestPyroscope(t *testing.T) {
	dir, _, _ := received(t, 2, 2)
	got := sums{}
	var refused atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		keys := strings.Join(slices.Sorted(maps.Keys(q)), " ")
		testenv.FailIf(t, r.URL.Path != "/tenant/ingest" || keys != "from name spyName until" || r.Header.Get("X-Scope-OrgID") != "a", "%s with %v", r.URL, r.Header)
		if refused.CompareAndSwap(false, true) { // the first one comes again
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		must(r.ParseMultipartForm(1 << 20))
		part := func(name string) multipart.File { return testenv.Must(r.MultipartForm.File[name][0].Open()) }
		p := testenv.Must(pprof.Parse(part("profile")))
		types := map[string]struct{ Units string }{}
		must(json.NewDecoder(part("sample_type_config")).Decode(&types))
		var sum [2]time.Duration
		for i, st := range p.SampleType {
			testenv.Same(t, "the unit of "+st.Type, types[st.Type].Units, st.Unit)
			for _, s := range p.Sample {
				switch st.Type {
				case "wall":
					sum[0] += time.Duration(s.Value[i])
				case "cpu":
					sum[1] += time.Duration(s.Value[i])
				}
			}
		}
		name := q.Get("name")
		pid, ok := strings.CutPrefix(name, "my/shop_{deployment_environment_name=prod_x_,hostname=web-1,pid=")
		pid, _, ok2 := strings.Cut(pid, ",")
		testenv.FailIf(t, !ok || !ok2 || !strings.HasSuffix(name, ",service_version=v1.4.2}"), "the name is %s", name)
		from, _ := strconv.ParseInt(q.Get("from"), 10, 64)
		until, _ := strconv.ParseInt(q.Get("until"), 10, 64)
		testenv.Same(t, "the length", until-from, int64(time.Second))
		got[pid+" at "+strconv.FormatInt(from/1000, 10)] = sum
	}))
	defer server.Close()
	m := NewMetrics()
	target, name, key, err := Open("pyroscope+"+strings.Replace(server.URL, "//", "//ann:secret@", 1)+"/tenant/", TargetOptions{
		Header: http.Header{"X-Scope-Orgid": {"a"}}, Resource: [][2]string{{"service.name", "my/shop!"}, {"deployment.environment.name", "prod{x}"}}, Metrics: m,
	})
	must(err)
	defer target.Close()
	testenv.FailIf(t, strings.Contains(name, "secret"), "the password is in the name %s", name)
	err = push(t, Options{Dir: dir, Target: target, Name: name, Key: key, Once: true, Backoff: time.Millisecond, Metrics: m})
	testenv.FailIf(t, err != nil || m.Files("sent") != 4, "%v, %d files sent", err, m.Files("sent"))
	testenv.NoDiff(t, "", cmp.Diff(profiled(t, dir), got))
}
