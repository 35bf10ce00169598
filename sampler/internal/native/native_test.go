//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/sampler/internal/source/sourcetest"
	"github.com/gotach/profiler/tachyon"
	"golang.org/x/sys/unix"
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
	sourcetest.Out
	stacks  map[*uint32][]tachyon.Frame
	samples []taken
	last    map[uint64]time.Duration
	lacks   lacks
	torn    int64             // stacks that do not end where they must; without walks that took too long
	keep    func(*taken) bool // nil: keep all samples
}

func newRecorder() *recorder {
	return &recorder{Out: sourcetest.NewOut(), stacks: map[*uint32][]tachyon.Frame{}, last: map[uint64]time.Duration{}}
}

func (r *recorder) Sample(s *source.Sample) {
	key := &s.Stack[0]
	stack := r.stacks[key]
	if stack == nil {
		stack = r.Stack(s)
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
	n := New()
	testenv.OK(t, n.Start(cfg, r))
	f()
	d := n.drain
	n.Stop()
	r.torn, r.lacks = d.torn, d.lacks
	testenv.OK(t, r.Err)
	c := n.Progress()
	testenv.FailIf(t, c.TicksReached > c.TicksAsked, "%d of %d ticks", c.TicksReached, c.TicksAsked)
	return r, n.Progress().Counts
}

// watch samples while f runs, and keeps no samples.
func watch(t testing.TB, cfg source.Config, each func(*taken), f func()) (*recorder, tachyon.Counts) {
	t.Helper()
	r := newRecorder()
	r.keep = func(s *taken) bool { each(s); return false }
	return sessionWith(t, cfg, r, f)
}

// samplesOf samples four goroutines that do something again and again, until there are enough samples.
func samplesOf(t testing.TB, do func(), each func(*taken), enough func() bool) {
	t.Helper()
	var stop atomic.Bool
	defer stop.Store(true)
	watch(t, source.Config{}, each, func() {
		for range 4 {
			go func() {
				for !stop.Load() {
					do()
				}
			}()
		}
		testenv.Await(enough)
	})
	testenv.Same(t, "there are enough samples", enough(), true)
}

func TestMain(m *testing.M) {
	testenv.CollectAsUsual() // it stops goroutines and moves their stacks while the handler reads them
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
		testenv.Fails(t, "a second source", New().Start(source.Config{Rate: 100, Budget: 1, Start: time.Now()}, newRecorder()), "another native source is running")
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
	testenv.Fails(t, "the session", r.Err, "no room")
	testenv.NoneLeft(t, others)
}

// TestNoStopTheWorld checks that a session does not stop the world while it takes some thousands of samples.
func TestNoStopTheWorld(t *testing.T) {
	defer park(3000)() // most have two soon
	var samples atomic.Int64
	watch(t, source.Config{WaitFrames: true}, func(*taken) { samples.Add(1) }, func() {
		before := testenv.Pauses()
		testenv.Await(func() bool { return samples.Load() > 5000 })
		testenv.Prints(t, "pauses, enough samples", "0 true", testenv.Pauses()-before, samples.Load() > 5000)
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
			testenv.Same(t, "a wait frame, which was turned off", s.stack[0].Func[0] == '[', false)
			covered[s.goroutine] += s.weight
			last = max(last, s.time)
		}
	}
	whole := 0
	for _, d := range covered {
		testenv.Within(t, "time of a goroutine", d, 0, last)
		if d >= lasted {
			whole++
		}
	}
	testenv.Within(t, fmt.Sprintf("goroutines of %d that were sampled for %v; %+v", len(covered), lasted, stats), whole, crowd-crowd/100, crowd)
}

// children are functions that run in a new process of this test binary.
var children = map[string]func(){}

// child runs one of the children and returns its output.
func child(t *testing.T, name string, env ...string) (string, error) {
	t.Helper()
	return execute(nil, append(env, "GOTACH_NATIVE_CHILD="+name))
}

// alone reports whether the test is in a process of its own. If not, it runs the test in one.
func alone(t *testing.T) bool {
	t.Helper()
	const variable = "GOTACH_NATIVE_ALONE"
	if os.Getenv(variable) != "" {
		return true
	}
	out, err := execute([]string{"-test.run=^" + t.Name() + "$", "-test.v"}, []string{variable + "=1"})
	t.Log(out)
	testenv.FailIf(t, err != nil, "%v", err)
	return false
}

func execute(args, env []string) (string, error) {
	args = append([]string{os.Args[0]}, args...)
	if emulator := os.Getenv("GOTACH_EMULATOR"); emulator != "" {
		args = append([]string{emulator}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// park starts n goroutines that wait 15 to 20 frames deep.
func park(n int) (stop func()) {
	ch := make(chan struct{})
	var up, down sync.WaitGroup
	up.Add(n)
	down.Add(n)
	var deep func(d int)
	deep = func(d int) {
		if d == 0 {
			up.Done()
			<-ch
			return
		}
		deep(d - 1)
	}
	for i := range n {
		go func() { deep(15 + i%6); down.Done() }()
	}
	up.Wait()
	time.Sleep(10 * time.Millisecond)
	return func() { close(ch); down.Wait() }
}

type discard struct{ *recorder }

func (discard) Sample(*source.Sample) {}

// tickCosts measures ticks, on one thread. walk is the time of a tick that
// walks all goroutines, rest that of one that records them without a walk because they have not run, tick that of a usual one
// while they do not run, profile that of a goroutine profile.
func tickCosts(b *testing.B, n int) {
	defer park(n)()
	runtime.GC() // stamps the goroutines that wait
	s := New()
	testenv.OK(b, s.Start(source.Config{Rate: 1, Budget: 100, Start: time.Now()}, discard{newRecorder()}))
	sh := s.s
	s.ticker.timer.delete()
	s.ticker.leave()
	close(s.quit)
	<-s.done
	s.quit, s.done = make(chan struct{}), make(chan struct{})
	close(s.done)
	defer s.Stop()
	s.drain.pass()
	// Call the handler repeatedly on this thread, like GoroutineProfile. It must take this thread
	// for the tick thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := sh.tid
	defer func() { sh.tid = tid }()
	sh.tid = uint64(unix.Gettid())
	readClock(sh)
	sh.visitLimit = ^uint64(0)
	median := func(name string, count int, before, f func()) {
		all := make([]time.Duration, count)
		for i := range all {
			before()
			start := time.Now()
			f()
			all[i] = time.Since(start)
		}
		slices.Sort(all)
		b.ReportMetric(float64(all[count/2]), name+"-ns")
	}
	onTick := func() {
		mem.StoreRelease(uintptr(unsafe.Pointer(&sh.tail)), sh.head) // as the drain does
		callTick(sh)
	}
	count := max(15, min(2000, 2_000_000/n))
	all := func() { sh.sweeps++ }
	median("walk", 15, func() { s.drain.roster.begin(monotonicNow()); all() }, onTick)
	for range n/5000 + 2 {
		onTick() // the ring holds 10,000 walks or so
	}
	median("rest", count, all, onTick)
	onTick()
	median("tick", count, func() {}, onTick)
	records := make([]runtime.StackRecord, n+100)
	median("goroutineprofile", max(9, min(200, count)), func() {}, func() { runtime.GoroutineProfile(records) })
}

// BenchmarkTick measures the work of ticks. For comparison it measures a goroutine profile of the same program.
func BenchmarkTick(b *testing.B) {
	for _, n := range []int{10, 1000, 10000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				tickCosts(b, n)
			}
		})
	}
}
