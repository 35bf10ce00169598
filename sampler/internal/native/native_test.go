//go:build linux && (amd64 || arm64)

package native

import (
	"maps"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

const here = "github.com/gotach/profiler/sampler/internal/native."

// taken is a sample in the form that tests use.
type taken struct {
	goroutine uint64
	status    tachyon.Status
	system    bool
	time      time.Duration
	weight    time.Duration
	stack     []tachyon.Frame // innermost first; shared by equal stacks
	object    *source.Object
	stops     source.Stops
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
	last    map[uint64]time.Duration
	err     error
	start   time.Time
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
		last:   map[uint64]time.Duration{},
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
func (*recorder) Gone(uint64)      {}
func (r *recorder) Fail(err error) { r.err = err }
func (*recorder) Counted()         {}

func (r *recorder) Batch(f func()) { f() }

func (r *recorder) Labels(id uint64, _ time.Duration, labels map[string]string) {
	r.labels[id] = append(r.labels[id], maps.Clone(labels))
}

func (r *recorder) Sample(s *source.Sample) {
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
	t := taken{s.Goroutine, s.Status, s.System, s.Time, weight, stack, s.Object, s.Stops}
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

// near reports whether two shares differ by at most most. It returns false for a share that is NaN,
// which has no samples.
func near(a, b, most float64) bool { return math.Abs(a-b) <= most }

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
	testenv.OK(t, n.Start(cfg, r))
	f()
	d := n.drain
	n.Stop()
	r.torn, r.lacks = d.torn, d.lacks
	if r.err != nil {
		t.Fatal(r.err)
	}
	if c := n.Stats(); c.TicksReached > c.TicksAsked {
		t.Errorf("%d of %d ticks", c.TicksReached, c.TicksAsked)
	}
	return r, n.Stats()
}

func TestMain(m *testing.M) {
	// qemu-user does not have process_vm_readv, so tests under it read memory with plain loads.
	mem.PlainReads = os.Getenv("GOTACH_PLAIN_READS") == "1"
	if name := os.Getenv("GOTACH_NATIVE_CHILD"); name != "" {
		children[name]()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestTwice starts a source while another one runs, and one after its end.
func TestTwice(t *testing.T) {
	others := testenv.Running()
	session(t, source.Config{}, func() {
		if err := New().Start(source.Config{Rate: 100, Budget: 1, Start: time.Now()}, newRecorder()); err == nil {
			t.Error("a second source could start")
		}
	})
	session(t, source.Config{}, func() {})
	testenv.NoneLeft(t, others)
}

// TestPanicDownstream has an Out that panics.
func TestPanicDownstream(t *testing.T) {
	others := testenv.Running()
	r, panics := newRecorder(), make(chan bool, 1)
	r.keep = func(*taken) bool { panics <- true; panic("no room") }
	s := New()
	testenv.OK(t, s.Start(source.Config{Rate: 1000, Budget: 50, WaitFrames: true, Start: time.Now()}, r))
	<-panics
	s.Stop()
	if r.err == nil || !strings.Contains(r.err.Error(), "no room") {
		t.Errorf("Fail got %v", r.err)
	}
	testenv.NoneLeft(t, others)
}

// TestNoStopTheWorld checks that a session does not stop the world while it takes some thousands of samples.
func TestNoStopTheWorld(t *testing.T) {
	defer park(1000)()
	var samples atomic.Int64
	r := newRecorder()
	r.keep = func(*taken) bool { samples.Add(1); return false }
	sessionWith(t, source.Config{WaitFrames: true}, r, func() {
		before := testenv.Pauses()
		testenv.Await(func() bool { return samples.Load() > 5000 })
		if after := testenv.Pauses(); after != before || samples.Load() <= 5000 {
			t.Errorf("%d pauses in %d samples", after-before, samples.Load())
		}
	})
}

// TestWholeSession runs a session that is too short for a visit of every goroutine in turn. The samples of
// each goroutine must cover the time from Start to Stop. The last visit of one in a hundred may fail: the tick may lose its core
// each time that it reads this stack, as may happen while the collector runs on a busy machine.
func TestWholeSession(t *testing.T) {
	const crowd = 2000
	free := park(5000)
	defer park(crowd)()
	free()
	var lasted time.Duration
	r, stats := session(t, source.Config{Budget: 0.01}, func() {
		begin := time.Now()
		time.Sleep(50 * time.Millisecond)
		lasted = time.Since(begin)
	})
	covered, last := map[uint64]time.Duration{}, time.Duration(0)
	for _, s := range r.samples {
		if strings.Contains(s.stack[len(s.stack)-1].Func, ".park.") {
			covered[s.goroutine] += s.weight
			last = max(last, s.time)
		}
	}
	short := crowd - len(covered)
	for id, d := range covered {
		if d > last {
			t.Errorf("goroutine %d was sampled for %v of %v", id, d, last)
		}
		if d < lasted {
			short++
		}
	}
	if len(covered) > crowd || short > crowd/100 {
		t.Errorf("%d goroutines were sampled, want %d; %d of them for less than %v; %+v", len(covered), crowd, short, lasted, stats)
	}
}
