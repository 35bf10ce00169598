package e2e

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// TestIdleRecordings looks at recordings of real clients and servers, made by testdata/peers: net/http with HTTP/1
// and HTTP/2, golang.org/x/net/http2, gRPC, database/sql with pgx, NATS and Redis, under load and without.
// TestPeerIdle makes them.
func TestIdleRecordings(t *testing.T) {
	for _, path := range testenv.Files(t, "testdata/idle/*.tach", 14) {
		name := strings.TrimSuffix(filepath.Base(path), ".tach")
		t.Run(name, func(t *testing.T) { checkIdle(t, path, strings.TrimSuffix(path, ".tach")+".log.gz", 0.01) })
	}
}

// checkIdle compares what is idle in a recording of testdata/peers with its log.
//
// While a goroutine handles a request, or has sent one and waits for the answer, it must not be idle. That is so
// with and without a label. Other goroutines, such as those that read from a connection, may be: what a request
// waits for is seen in its own goroutine. If there are no requests, all of the libraries' waits must be idle.
//
// On a busy machine a sample's time is not quite that at which the goroutine was looked at. So a share of the
// time in requests may be wrong.
func checkIdle(t *testing.T, profile, log string, share float64) {
	t.Helper()
	r := idleResultOf(t, profile, log)
	if strings.HasSuffix(strings.TrimSuffix(profile, ".tach"), "none") {
		testenv.FailIf(t, r.others > r.idle/20, "%v is not idle though there are no requests: %v", r.others, r.stacks)
		return
	}
	testenv.FailIf(t, float64(r.wrong) > share*float64(r.wrong+r.served), "%v is idle in which requests are handled or wait: %v", r.wrong, r.stacks)
	testenv.FailIf(t, r.served < r.logged/20, "only %v are not idle in requests that took %v together", r.served, r.logged)
	testenv.FailIf(t, r.labelled > 0, "requests with a label are idle: %v", r.stacks)
}

// A served is a time in which a goroutine handles a request or waits for the answer to one, µs since 1970.
type served struct{ begin, end uint64 }

// An idleResult is what Idle says about the waits of a recording.
type idleResult struct {
	idle     time.Duration
	wrong    time.Duration            // idle, though the goroutine serves a request
	served   time.Duration            // not idle, of the same
	logged   time.Duration            // what the log says of the same, and of goroutines that run
	others   time.Duration            // not idle, in stacks without functions of the program besides main
	labelled time.Duration            // idle, in stacks with such functions, though the goroutine has labels
	stacks   map[string]time.Duration // of what should not be
}

func idleResultOf(t *testing.T, profile, log string) *idleResult {
	t.Helper()
	f := testenv.Closes(t, testenv.Must(reader.Open(profile)))
	src := testenv.Must(stream.New([]stream.File{{Stream: f}}, stream.Options{Labels: true, Creators: true, Objects: true}))
	r := &idleResult{stacks: map[string]time.Duration{}}
	serves := r.read(t, log, f.Header().Start)
	type place struct {
		key    idle.Key
		stack  uint32
		serves bool
		label  bool
	}
	idle := idle.New(src, nil)
	sums := map[place]time.Duration{}
	for s := range testenv.All(t, src.Samples()) {
		key := idle.Add(s)
		if s.Interpreter == tachyon.User && s.Status&(tachyon.OnCPU|tachyon.HasGIL|tachyon.GILRequested) == 0 {
			sums[place{key, s.Stack, during(serves[s.Goroutine], s.Time), s.Labels != nil}] += s.Wall
		}
	}
	idle.Finish()
	for p, wall := range sums {
		var names []string
		own := false // a function of the program itself is in the stack, besides main
		for _, n := range src.AppendStack(nil, p.stack) {
			name := src.Frames()[n].Func
			names = append(names, name)
			own = own || strings.HasPrefix(name, "main.")
		}
		is := idle.Is(p.key)
		add := func(to *time.Duration, bad string) {
			if *to += wall; bad != "" {
				r.stacks[bad+": "+strings.Join(names, " < ")] += wall
			}
		}
		switch {
		case is:
			add(&r.idle, "")
		case !own:
			add(&r.others, "not idle")
		}
		switch {
		case p.serves && is:
			add(&r.wrong, "idle in a request")
		case p.serves:
			add(&r.served, "")
		}
		if is && own && p.label {
			add(&r.labelled, "idle with a label")
		}
	}
	return r
}

// during reports whether a time is in one of the times, and not at its edge.
func during(list []served, at uint64) bool {
	i, _ := slices.BinarySearchFunc(list, at, func(s served, at uint64) int { return cmp.Compare(s.end, at) })
	return i < len(list) && list[i].begin+1000 <= at && at+1000 <= list[i].end
}

// read reads the log of testdata/peers: for each goroutine the times in which it serves requests.
func (r *idleResult) read(t *testing.T, path string, start uint64) map[uint64][]served {
	t.Helper()
	f := testenv.Closes(t, testenv.Must(os.Open(path)))
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		in = testenv.Must(gzip.NewReader(f))
	}
	out := map[uint64][]served{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var id uint64
		var s served
		var labelled int
		_ = testenv.Must(fmt.Sscan(lines.Text(), &id, &s.begin, &s.end, &labelled))
		out[id] = append(out[id], s)
		if s.begin >= start {
			r.logged += time.Duration(s.end-s.begin) * time.Microsecond
		}
	}
	testenv.OK(t, lines.Err())
	return out
}

// In the recordings of TestIdleRecordings clients wait for servers and for free connections. That has a name in nearly all of the time, and
// no goroutine is said to be the cause: those that answer are behind a connection. Only who has the connections of a pool is said.
func TestWaitsRecordings(t *testing.T) {
	http := []string{"a response of an HTTP server"}
	for kind, names := range map[string][]string{
		"http1": http, "http2": http, "xhttp2": http,
		"grpc":  {"a response of a gRPC server", "a message of a gRPC server"},
		"sql":   {"a response of PostgreSQL", "a free connection of sql.DB"},
		"nats":  {"a response of NATS"},
		"redis": {"a response of Redis", "a free connection of go-redis"},
	} {
		t.Run(kind, func(t *testing.T) {
			f := testenv.Closes(t, testenv.Must(reader.Open("testdata/idle/"+kind+"-load.tach")))
			src := testenv.Must(stream.New([]stream.File{{Stream: f}}, stream.Options{Objects: true, Creators: true}))
			w := testenv.Must(locks.FindWaits(analyze.NewSamples(kind, src), locks.WaitOptions{Func: regexp.MustCompile(`^main\.loop$`)}))
			found := map[string]time.Duration{}
			left := w.Waited
			for _, n := range w.Chains {
				name, _, _ := strings.Cut(n.Name, " (") // "(3 in use)"
				switch {
				case name != "" && slices.Contains(names, name):
					found[name] += n.Time
					left -= n.Time
				case n.State == "sleep": // a client of NATS
					left -= n.Time
				}
				for _, by := range n.Next {
					holds := name == "a free connection of sql.DB" && by.Role == "holds" && (strings.HasPrefix(by.Func, "main.startSQL.") ||
						strings.HasPrefix(by.Func, "github.com/jackc/pgx/"))
					testenv.FailIf(t, !holds && n.Kind != "sync.Mutex" && n.Kind != "sync.RWMutex", "%v: %v [%s] %s is said to keep %q waiting", by.Time, by.Role, by.State, by.Func, n.Name)
				}
			}
			testenv.FailIf(t, left > w.Waited/20, "%v of %v has none of the names %q: %+v", left, w.Waited, names, w.Chains)
			for _, name := range names {
				testenv.FailIf(t, found[name] == 0, "nobody waits for %s", name)
			}
		})
	}
}
