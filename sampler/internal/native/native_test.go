//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// taken is a sample in the form that tests use.
type taken struct {
	goroutine uint64
	status    tachyon.Status
	system    bool
	time      time.Duration
	weight    time.Duration
	stack     []tachyon.Frame // innermost first; shared by equal stacks
	object    *source.Object
}

// recorder is a source.Out that keeps everything.
type recorder struct {
	mu      sync.Mutex
	ids     map[tachyon.Frame]uint32
	frames  []tachyon.Frame
	stacks  map[*uint32][]tachyon.Frame
	samples []taken
	told    map[uint64]source.Goroutine
	labels  map[uint64][]map[string]string
	gone    map[uint64]bool
	last    map[uint64]time.Duration
	leaves  map[uint64]int
	err     error
	start   time.Time
	late    time.Duration // mean time for which a tick waited for a core
	lacks   lacks
	torn    int64             // stacks that do not end where they must; without walks that took too long
	keep    func(*taken) bool // nil: keep all samples
}

func newRecorder() *recorder {
	return &recorder{
		ids:    map[tachyon.Frame]uint32{},
		stacks: map[*uint32][]tachyon.Frame{},
		told:   map[uint64]source.Goroutine{},
		labels: map[uint64][]map[string]string{},
		gone:   map[uint64]bool{},
		last:   map[uint64]time.Duration{},
		leaves: map[uint64]int{},
	}
}

func (r *recorder) Frame(f tachyon.Frame) uint32 {
	id, ok := r.ids[f]
	if !ok {
		id = uint32(len(r.frames))
		r.frames = append(r.frames, f)
		r.ids[f] = id
	}
	return id
}

func (r *recorder) Goroutine(g source.Goroutine) bool {
	if own.Created(g.CreatedBy) {
		return false
	}
	r.told[g.ID] = g
	return true
}
func (r *recorder) Gone(id uint64) { r.gone[id] = true }
func (r *recorder) Fail(err error) { r.err = err }
func (*recorder) Counted()         {}

func (r *recorder) Batch(f func()) { f() }

func (r *recorder) Labels(id uint64, _ time.Duration, labels map[string]string) {
	r.labels[id] = append(r.labels[id], maps.Clone(labels))
}

func (r *recorder) Sample(s *source.Sample) {
	if s.Leaf != 0 {
		r.leaves[s.Leaf]++
	}
	key := &s.Stack[0]
	stack := r.stacks[key]
	if stack == nil {
		for _, id := range s.Stack {
			stack = append(stack, r.frames[id])
		}
		r.stacks[key] = stack
	}
	weight := s.Gap
	if last, ok := r.last[s.Goroutine]; ok {
		weight = s.Time - last
	}
	r.last[s.Goroutine] = s.Time
	t := taken{s.Goroutine, s.Status, s.System, s.Time, weight, stack, s.Object}
	if r.keep == nil || r.keep(&t) {
		r.samples = append(r.samples, t)
	}
}

func names(stack []tachyon.Frame) (n []string) {
	for _, f := range stack {
		n = append(n, f.Func)
	}
	return n
}

// budgetHere is the default budget. Under an emulator a tick costs ten times as much, and so may a session.
func budgetHere() float64 {
	if testenv.Emulated() {
		return 10
	}
	return 1
}

// session samples while f runs.
func session(t testing.TB, cfg source.Config, f func()) (*recorder, tachyon.Counts) {
	t.Helper()
	return sessionWith(t, cfg, newRecorder(), f)
}

func sessionWith(t testing.TB, cfg source.Config, r *recorder, f func()) (*recorder, tachyon.Counts) {
	t.Helper()
	if cfg.Rate == 0 {
		cfg.Rate = 1000
	}
	if cfg.Budget == 0 {
		cfg.Budget = 100
	}
	cfg.Start = time.Now()
	r.start = cfg.Start
	n := New()
	if err := n.Start(cfg, r); err != nil {
		t.Fatal(err)
	}
	late := waited(n.ticker.tid)
	f()
	late = waited(n.ticker.tid) - late
	d := n.drain
	n.Stop()
	r.torn, r.lacks = d.torn, d.lacks
	if r.err != nil {
		t.Fatal(r.err)
	}
	stats := n.Stats()
	r.late = late / time.Duration(max(1, stats.TicksReached))
	return r, stats
}

// waited returns the time for which a thread has waited for a core so far.
func waited(tid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/schedstat", tid))
	if err != nil {
		return 0 // the kernel may be built without it
	}
	var ran, waited time.Duration
	fmt.Sscan(string(b), &ran, &waited)
	return waited
}

func TestSmoke(t *testing.T) {
	stop := make(chan bool)
	for range 10 {
		go func() { <-stop }()
	}
	defer close(stop)
	r, stats := session(t, source.Config{WaitFrames: true}, func() {
		end := time.Now().Add(time.Second)
		for time.Now().Before(end) {
		}
	})
	count := map[string]int{}
	for _, s := range r.samples {
		count[s.stack[0].Func+" < "+s.stack[min(1, len(s.stack)-1)].Func]++
	}
	for _, k := range slices.Sorted(maps.Keys(count)) {
		t.Log(count[k], k)
	}
	t.Logf("%+v", stats)
	t.Logf("%v", names(r.samples[len(r.samples)-1].stack))
}
