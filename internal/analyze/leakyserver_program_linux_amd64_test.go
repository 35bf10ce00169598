//go:build !race && go1.26

package analyze

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/reader"
)

// A leakyServer is a server whose handlers need a lock that a goroutine holds for long at times. Each
// request leaves a goroutine behind, so some 300 begin in a second and never do anything.
type leakyServer struct {
	p     *planted
	mu    sync.Mutex
	never chan struct{}

	logged sync.Mutex
	log    []uint64 // how long requests took, µs
}

func (x *leakyServer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	begin := time.Now()
	go leakedByRequest(x.never)
	time.Sleep(15 * time.Millisecond)
	id := ownID()
	x.mu.Lock()
	held := x.p.log.now()
	x.p.log.held(unsafe.Pointer(&x.mu), id, held)
	x.mu.Unlock()
	_, _ = io.WriteString(w, "done")
	took := uint64(time.Since(begin).Microseconds())
	x.logged.Lock()
	x.log = append(x.log, took)
	x.logged.Unlock()
}

func leakedByRequest(never chan struct{}) { <-never }

func (x *leakyServer) reload(id uint64) {
	x.mu.Lock()
	begin := x.p.log.now()
	time.Sleep(60 * time.Millisecond)
	x.p.log.held(unsafe.Pointer(&x.mu), id, begin)
	x.mu.Unlock()
	time.Sleep(300 * time.Millisecond)
}

// The goroutines that a server leaves behind do not take the visits from those that serve requests.
func TestLeakyServer(t *testing.T) {
	if url := os.Getenv("GOTACH_LEAKY_SERVER_URL"); url != "" {
		length, err := time.ParseDuration(os.Getenv("GOTACH_LEAKY_SERVER_FOR"))
		if err != nil {
			t.Fatal(err)
		}
		requestAll(t, 6, url, length)
		return
	}
	length := 5 * time.Second
	if v := os.Getenv("GOTACH_LEAKY_SERVER"); v != "" {
		s, err := strconv.Atoi(v)
		if err != nil {
			t.Fatal(err)
		}
		length = time.Duration(s) * time.Second
	}
	x := &leakyServer{p: &planted{log: newLockLog(), stop: make(chan struct{})}, never: make(chan struct{})}
	defer close(x.never)
	server := httptest.NewServer(x)
	defer server.Close()
	path := filepath.Join(t.TempDir(), "server.tach")
	if v := os.Getenv("GOTACH_KEEP"); v != "" {
		path = v
	}
	session, err := profiler.Open(profiler.Output(path))
	if err != nil {
		t.Fatal(err)
	}
	x.p.goes(x.reload)
	if os.Getenv("GOTACH_INSIDE") != "" {
		requestAll(t, 6, server.URL, length)
	} else {
		// In another process, like those of most servers.
		clients := exec.Command(os.Args[0], "-test.run=^TestLeakyServer$")
		clients.Env = append(os.Environ(), "GOTACH_LEAKY_SERVER_URL="+server.URL, "GOTACH_LEAKY_SERVER_FOR="+length.String())
		if out, err := clients.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	close(x.p.stop)
	x.p.all.Wait()
	if err := session.Stop(); err != nil {
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
	gap := m.Session.Duration / time.Duration(max(1, m.Session.TicksReached))
	t.Logf("%v between two ticks, cost %v of %v, not seen %v", gap, m.Session.Cost, m.Session.Duration, m.Session.NotSeen)

	// Those that serve requests have a sample at most ticks, and those that were left behind take none from them.
	serving, samples := map[uint64]bool{}, 0
	for _, g := range m.Goroutines {
		serving[g.ID] = g.CreatedBy == "net/http.(*Server).Serve"
	}
	for s, err := range f.Samples() {
		if err != nil {
			t.Fatal(err)
		}
		if serving[s.Thread] {
			samples++
		}
	}
	t.Logf("%d samples of six goroutines that serve requests, %d ticks", samples, m.Session.TicksReached)
	if samples < 6*int(m.Session.TicksReached)/2 {
		t.Errorf("%d samples of six goroutines that serve requests at %d ticks", samples, m.Session.TicksReached)
	}

	slices.Sort(x.log)
	r, err := FindRequests(samplesOf(t, stream.Options{Labels: true}, f), RequestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests of %d, about %d; %d too short", r.Count, len(x.log), r.Estimated, r.TooShort)
	at := func(q float64) time.Duration { return micros(x.log[int(q*float64(len(x.log)-1))]) }
	for _, p := range []struct {
		got time.Duration
		q   float64
	}{{r.P50, 0.5}, {r.P90, 0.9}, {r.P99, 0.99}} {
		t.Logf("p%v is %v, log: %v", 100*p.q, p.got, at(p.q))
	}
	// Some requests have no sample, mostly short ones. So the other percentiles are too long.
	if off := (r.P50 - at(0.5)).Abs(); off > 2*gap+2*time.Millisecond {
		t.Errorf("p50 is %v, the log says %v", r.P50, at(0.5))
	}

	for _, list := range x.p.log.holds {
		slices.SortFunc(list, func(a, b hold) int { return cmp.Compare(a.begin, b.begin) })
	}
	counts := compareHolders(t, x.p.log, path, LockOptions{})
	if all := counts.right + counts.wrong + counts.unknown; gap < 20*time.Millisecond && (10*counts.right < 8*all || all == 0) {
		t.Errorf("the holder is right at %d of %d instants", counts.right, all)
	}
	l, err := FindLocks(samplesOf(t, stream.Options{Objects: true}, f), LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range l.Locks {
		if k.IsLock() {
			t.Logf("%s waited %v, unknown %v", k.Name, k.Waited, k.Holder.Unknown)
			for _, line := range k.Holder.Lines {
				t.Logf("   %+v", line)
			}
		}
	}
}
