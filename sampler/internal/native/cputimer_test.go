//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"golang.org/x/sys/unix"
)

// TestVisit has records of one thread. Each is a visit if the thread has no timer, otherwise only those of the timer, and one
// when the timer is overdue. Visits stand for the CPU time since the visit before, without that of the drain.
func TestVisit(t *testing.T) {
	const ms = 1_000_000
	for _, c := range []struct {
		name         string
		timed, timer bool
		clock        uint64 // the last one was 100 ms
		passes       uint64
		since        int64
		without      int64
	}{
		{"of the timer", true, true, 104 * ms, 0, 4 * ms, 0},
		{"of a tick, with a timer", true, false, 104 * ms, 0, 0, 0},
		{"the timer is overdue", true, false, 150 * ms, 0, 50 * ms, 50 * ms},
		{"without a timer", false, false, 104 * ms, 0, 4 * ms, 4 * ms},
		{"with a pass of the drain", true, true, 104 * ms, 3 * ms, ms, 0},
		{"the pass goes on", true, true, 104 * ms, 5 * ms, 0, 0},
		{"not in order", true, true, 99 * ms, 0, 0, 0},
	} {
		ts := newThreads(nil)
		th := ts.of(7)
		th.clock, th.passes, th.timer.exists = 100*ms, c.passes, c.timed
		since := ts.visit(th, c.clock, c.timer)
		testenv.Prints(t, c.name+": time, paid, without a timer", fmt.Sprint(c.since, c.since, c.without), since, ts.paid, ts.without)
		ts.visit(th, 160*ms, true)
		testenv.Same(t, c.name+": paid for both visits", ts.paid, int64(60*ms-c.passes))
	}
}

// TestTimers makes timers for threads until there are as many as are allowed. A thread that has none gets the number of one
// that has ended.
func TestTimers(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ts := newThreads(&shared{signal: uint64(defaultSignal), cpuTag: cpuTimerTag})
	ts.begin()
	testenv.Within(t, "timers that are allowed", ts.most, 1, maxTimers)
	if ts.most = min(ts.most, 2); ts.most < 2 {
		testenv.Skip(t, "the user may have too few timers")
	}
	defer ts.stopAll()
	tid := uint64(unix.Gettid())
	var list [3]*thread
	for i := range list {
		list[i] = new(thread)
		ts.start(list[i], tid)
		testenv.Same(t, fmt.Sprint("timer ", i), list[i].timer.exists, i < 2)
	}
	ts.stop(list[0])
	ts.start(list[2], tid)
	testenv.Prints(t, "a timer in the place of one that has ended", "true 0", list[2].timer.exists, list[2].number)
	ts.stop(list[1])
	ts.stop(list[2])
	ts.start(list[0], 1<<22+1)
	testenv.Prints(t, "a timer on a thread that does not exist; numbers left", "false 2", list[0].timer.exists, len(ts.free))
}

// TestOwe has a goroutine with a sample at 10 ms that is owed CPU time. Its samples up to 20 ms begin with that.
func TestOwe(t *testing.T) {
	r := newRecorder()
	a, b, wait := oneFrame(r, "a"), oneFrame(r, "b"), oneFrame(r, "[sleep]")
	const ms = time.Millisecond
	for _, c := range []struct {
		name  string
		ahead time.Duration
		debts []debt
		want  string
		owes  time.Duration
	}{
		{"nothing", 0, nil, "20ms [sleep]", 0},
		{"less than the time", 0, []debt{{a, 0, 4 * ms}}, "14ms a on CPU, 20ms [sleep]", 0},
		{"two places", 0, []debt{{a, 0, 4 * ms}, {b, 0, 3 * ms}, {b, 0, ms}}, "14ms a on CPU, 18ms b on CPU, 20ms [sleep]", 0},
		{"all the time", 0, []debt{{a, 0, 10 * ms}}, "20ms a on CPU", 0},
		{"more than the time", 0, []debt{{a, 0, 4 * ms}, {b, 0, 11 * ms}}, "14ms a on CPU, 20ms b on CPU", 5 * ms},
		{"samples had it in advance", ms, []debt{{a, 0, 4 * ms}}, "13ms a on CPU, 20ms [sleep]", 0},
		{"too little for a sample", 0, []debt{{a, 0, 900}}, "20ms [sleep]", 900},
	} {
		d, g := &drain{out: r}, &goroutine{id: uint64(len(r.samples) + 1), seen: true, last: 10 * ms, ahead: c.ahead}
		r.samples = nil
		for _, debt := range c.debts {
			d.owe(g, debt.stack, debt.status, debt.cpu)
		}
		d.emit(g, wait, 0, 20*ms, 0)
		testenv.Prints(t, c.name, fmt.Sprint(c.want, " ", c.owes), said(r.samples), g.owes)
	}
}

// TestVisited has visits at 20 ms to the thread of a goroutine with a sample at 10 ms.
func TestVisited(t *testing.T) {
	r := newRecorder()
	run, wait := oneFrame(r, "run"), oneFrame(r, "[sleep]")
	wait.valid = true
	const ms = time.Millisecond
	for _, c := range []struct {
		name  string
		g     goroutine
		owes  time.Duration
		runs  uint64 // of the record
		want  string
		ahead time.Duration
	}{
		{"it ran all the time", goroutine{seen: true}, 10 * ms, 0, "20ms run on CPU", 0},
		{"it had waited", goroutine{seen: true, parked: wait}, 4 * ms, 0, "16ms [sleep], 20ms run on CPU", 0},
		{"it had no core for some time", goroutine{seen: true, parked: wait, ran: true, runs: 5}, 4 * ms, 5, "16ms run, 20ms run on CPU", 0},
		{"it has stopped since, perhaps", goroutine{seen: true, ran: true, runs: 5}, 4 * ms, 6, "16ms run, 20ms run on CPU", 0},
		{"little is missing", goroutine{seen: true, ran: true, runs: 5}, 10*ms - 50*time.Microsecond, 5, "20ms run on CPU", 50 * time.Microsecond},
		{"it was preempted", goroutine{seen: true, parked: wait, ran: true, runs: 5}, 10*ms - 50*time.Microsecond, 6, "20ms run on CPU", 50 * time.Microsecond},
		{"its first sample", goroutine{}, 4 * ms, 0, "20ms run on CPU", 0},
		{"one of the runtime's", goroutine{seen: true, quiet: true, parked: wait}, 4 * ms, 0, "16ms [sleep], 20ms run on CPU", 0},
	} {
		d, g := &drain{out: r}, c.g
		g.id, g.last = uint64(len(c.name)), 0
		if g.seen {
			g.last = 10 * ms
		}
		d.owe(&g, run, 0, c.owes)
		rec := make(record, headWords)
		rec[headRuns] = c.runs
		r.samples, r.last = nil, map[uint64]time.Duration{}
		d.visited(&g, rec, run, 0, 20*ms, 10*ms)
		testenv.Prints(t, c.name, fmt.Sprint(c.want, " ", c.ahead, " 0s"), said(r.samples), g.ahead, g.owes)
	}
}

// TestCoreless has two goroutines of a go statement that visits find waiting, after ticks have found a third one running, for 10 ms each. The
// second one has what the first one's time is too short for.
func TestCoreless(t *testing.T) {
	r := newRecorder()
	run, wait := oneFrame(r, "run"), oneFrame(r, "[sleep]")
	const ms = time.Millisecond
	for _, c := range []struct {
		name  string
		found int
		told  time.Duration // by samples
		owed  time.Duration // to the first one
		want  string
	}{
		{"not often enough to tell", 4, 0, 0, "80ms [sleep], 80ms [sleep]"},
		{"without a core", 16, 0, 0, "80ms run, 20ms run, 80ms [sleep]"},
		{"what samples say", 16, 60 * ms, 0, "40ms run, 80ms [sleep], 80ms [sleep]"},
		{"CPU time comes off, and has its place first", 16, 0, 30 * ms, "50ms run, 80ms run on CPU, 10ms run, 80ms [sleep]"},
	} {
		r.samples, r.last = nil, map[uint64]time.Duration{}
		d := &drain{out: r, threads: newThreads(nil)}
		d.threads.of(7).timer.exists = true
		ran := &goroutine{id: 3, seen: true, balance: d.nocores.Of(1)}
		rec := make(record, headWords)
		rec[0], rec[headTID], rec[headIndex] = goruntime.GRunning<<32, 7, ^uint64(0)
		for i := range time.Duration(c.found) {
			d.active(ran, rec, run, (i+1)*10*ms, i*10*ms)
		}
		rec[0] |= flagCPUTimer << 48 // no tick
		d.active(ran, rec, run, 0, -time.Second)
		d.nocores.Of(1).Told(c.told)
		for i := range uint64(2) {
			g := &goroutine{id: i + 1, seen: true, computing: run, balance: d.nocores.Of(1)}
			if c.owed > 0 && i == 0 {
				d.owe(g, run, tachyon.HasGIL, c.owed)
			}
			rec := make(record, headWords)
			rec[0] = goruntime.GWaiting << 32
			d.waiting(g, rec, wait, 80*ms, 0)
		}
		testenv.Same(t, c.name, said(r.samples), c.want)
	}
}

// TestEstate has goroutines of two go statements that end while they are owed CPU time. Later ones of the same statement get
// it, up to maxDebts; the row of unknown goroutines gets the rest, and what is too old.
func TestEstate(t *testing.T) {
	r := newRecorder()
	const ms = time.Millisecond
	var places []*stack
	for i := range maxDebts + 1 {
		places = append(places, oneFrame(r, fmt.Sprint("f", i)))
	}
	d := &drain{out: r, estates: map[uint64]*estate{}, account: &account{}}
	ended := func(created uint64, places ...*stack) {
		g := goroutine{created: created}
		for _, s := range places {
			d.owe(&g, s, 0, ms)
		}
		d.leave(&g)
	}
	ended(1, places[0], places[1])
	ended(1, places[2:]...) // one too many
	ended(2, places[0])
	heir, other := goroutine{created: 1}, goroutine{created: 3}
	d.inherit(&heir)
	d.inherit(&other)
	testenv.Prints(t, "inherited, estates left", fmt.Sprint(maxDebts*ms, " 0s 1"), heir.owes, other.owes, len(d.estates))
	d.settleEstates()
	testenv.Same(t, "estates that are new", len(d.estates), 1)
	d.now = estateKept + 1
	d.settleEstates()
	d.gs, d.left = []goroutine{heir}, map[uint64]goroutine{}
	d.end = true
	d.settleEstates()
	r.samples = nil
	d.account.rows.Write(r, 100*ms, true)
	sum := time.Duration(0)
	for _, s := range r.samples {
		if s.status&tachyon.OnCPU != 0 && s.stack[len(s.stack)-1].Func == tachyon.FuncUnknown {
			sum += s.weight
		}
	}
	testenv.Same(t, "time of unknown goroutines", sum, (maxDebts+2)*ms)
}

func oneFrame(r *recorder, name string) *stack {
	return &stack{ids: []uint32{r.Frame(tachyon.Frame{Func: name})}}
}

// said describes samples: until when, where, and whether on the CPU.
func said(samples []taken) string {
	var list []string
	for _, s := range samples {
		text := fmt.Sprint(s.time, " ", s.stack[0].Func)
		if s.status&tachyon.OnCPU != 0 {
			text += " on CPU"
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

//go:noinline
func computes(n int) (x float64) {
	x = 1
	for range n {
		x *= 1.0000001
	}
	return x
}

//go:noinline
func napsInCall() {
	ts := syscall.NsecToTimespec(2e6)
	syscall.Nanosleep(&ts, nil)
}

// TestCPUBeforeCalls has goroutines that compute and then wait in a system call for longer. Ticks find them in the call. The
// CPU time is where they compute.
func TestCPUBeforeCalls(t *testing.T) {
	testenv.NotEmulated(t, "qemu's signals come between blocks of code, so not where the time is used")
	var computing, calling, sink atomic.Int64
	samplesOf(t, func() {
		sink.Add(int64(computes(400_000)))
		napsInCall()
	}, func(s *taken) {
		stack := names(s.stack)
		switch {
		case s.status&tachyon.OnCPU == 0:
		case slices.Contains(stack, here+"computes"):
			computing.Add(int64(s.weight))
		case slices.Contains(stack, here+"napsInCall"):
			calling.Add(int64(s.weight))
		}
	}, func() bool { return computing.Load()+calling.Load() > int64(300*time.Millisecond) })
	testenv.Within(t, "time in the call", calling.Load(), 0, computing.Load()/2)
}

// TestScheduler has goroutines that make the scheduler work a lot. It must have CPU time, and not theirs.
func TestScheduler(t *testing.T) {
	var working, scheduling atomic.Int64
	samplesOf(t, runtime.Gosched, func(s *taken) {
		switch {
		case s.status&tachyon.OnCPU == 0 || s.weight <= 0:
		case s.goroutine < tachyon.FirstPseudo && !s.system:
			working.Add(1)
		case s.goroutine >= tachyon.FirstPseudo && s.stack[len(s.stack)-1].Func == tachyon.FuncScheduler:
			scheduling.Add(1)
		}
	}, func() bool { return scheduling.Load() >= 10 && working.Load() >= 10 })
}
