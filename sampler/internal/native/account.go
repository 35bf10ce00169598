//go:build linux && (amd64 || arm64)

package native

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/rows"
	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/source"
)

// account compares the CPU time of the process with that of its goroutines. The rest goes to the
// rows: the profiler's own, that of C threads, and the scheduler's. All times are in ns.
type account struct {
	ts   *threads
	rows source.Rows
	base uint64 // CPU time of the process at the session's start
	used int64  // since then, at the last settlement

	tick     int    // the tick thread
	tickBase uint64 // its CPU time at the session's start
	tickCPU  int64  // since then
	passes   int64  // CPU time of the drain's passes
	own      int64  // what the profiler's row has been given
	c        int64  // what the row of C threads has been given
	rest     int64  // what the scheduler's row has been given

	cgo    bool // the program can have C threads
	next   time.Time
	clocks map[uint64]uint64 // the CPU time of each thread at this look; empty: it is too early for a look
}

// lookEvery is the time between two looks at all threads. A look reads the clock of each one. With
// many threads there is more time between two looks, so that they cost less than 0.2 % of a core.
// What a C thread has used between the last look and its end goes to the scheduler.
const lookEvery = 200 * time.Millisecond

// newAccount begins to count. Threads that exist now have used CPU time before the session.
func newAccount(ts *threads, tick int, monitor uint64, cgo bool, now time.Duration) *account {
	a := &account{ts: ts, tick: tick, cgo: cgo, clocks: make(map[uint64]uint64)}
	a.rows.Begin(now)
	for _, tid := range threadIDs() {
		ts.of(tid).clock = cost.ThreadCPU(int(tid))
	}
	if monitor != 0 {
		ts.hit(monitor) // it never has a goroutine
	}
	a.next = time.Now().Add(lookEvery)
	a.tickBase, a.base = cost.ThreadCPU(tick), cost.ProcessCPU()
	return a
}

// passed adds a pass of the drain on a thread.
func (a *account) passed(tid int, cpu uint64) {
	a.passes += int64(cpu)
	a.ts.of(uint64(tid)).passes += cpu // the goroutines of that thread have not used it
}

// read reads the clocks, before a pass takes records out of the ring. A pass can take long on a
// busy machine. If the clocks were read after it, there would be CPU time of goroutines whose
// records are still in the ring, and it would be given to the rows.
func (a *account) read(end bool) {
	clear(a.clocks)
	used := int64(cost.ProcessCPU() - a.base)
	if used < a.used || a.base == 0 {
		return // the kernel refuses to say
	}
	a.used = used
	a.tickCPU = max(a.tickCPU, int64(cost.ThreadCPU(a.tick)-a.tickBase))
	now := time.Now()
	if !end && now.Before(a.next) {
		return
	}
	tid := unix.Gettid()
	before := cost.ThreadCPU(tid)
	for _, tid := range threadIDs() {
		a.ts.of(tid)
	}
	for tid := range a.ts.list {
		a.clocks[tid] = cost.ThreadCPU(int(tid))
	}
	a.next = now.Add(max(lookEvery, 500*time.Duration(cost.ThreadCPU(tid)-before)))
}

// settle gives the rows what goroutines have not used, and writes them, as of time t.
func (a *account) settle(out source.Out, t time.Duration, end bool) {
	if a.used == 0 {
		return
	}
	a.rows.Add(rows.Profiler, nil, time.Duration(a.tickCPU+a.passes-a.own))
	a.own = a.tickCPU + a.passes
	if len(a.clocks) > 0 {
		a.look(end)
	}
	a.rows.Write(out, t, end)
}

// look goes through the clocks of all threads. It gives C threads what they have used, and the
// scheduler what threads have used that have ended.
func (a *account) look(end bool) {
	waiting := int64(0) // what threads have used since their latest visits
	for tid, cpu := range a.clocks {
		t := a.ts.of(tid)
		t.tried = false
		if cpu == 0 {
			if t.ended {
				a.ts.stop(t)
				delete(a.ts.list, tid)
			}
			t.ended = true // its last record may come with the next tick
			continue
		}
		switch since := max(0, int64(cpu-t.clock-t.passes)); {
		case int(tid) == a.tick || cpu < t.clock:
		case !t.ran && (t.c || a.cgo && since > unlikely):
			t.c = true
			used := t.read(cpu)
			a.c += used
			a.rows.Add(rows.CThreads, nil, time.Duration(used))
		case end && t.last != nil:
			used := t.read(cpu)
			a.ts.paid += used
			a.rows.Add(rows.Unknown, t.last.ids, time.Duration(used))
		case !end:
			waiting += since
		}
	}
	if more := a.used - a.own - a.c - a.rest - a.ts.paid - waiting; more > 0 {
		a.rows.Add(rows.Scheduler, nil, time.Duration(more))
		a.rest += more
	}
}

// A thread that has used so much CPU time, in ns, and was never found with a goroutine is one of C.
const unlikely = 50e6

// threadIDs lists the threads of the process; nil if that is not possible.
func threadIDs() (ids []uint64) {
	names, _ := taskNames(-1)
	for _, n := range names {
		if id, err := strconv.ParseUint(n, 10, 64); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// taskNames returns the ids of so many threads of the process; of all if n is negative.
func taskNames(n int) ([]string, error) {
	f, err := os.Open("/proc/self/task")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(n)
}

// threads is what the drain knows of the threads of the process. Each visit to a thread stands for
// the CPU time since the visit before, so all visits add up to the CPU time of the process.
//
// The visits are those of CPU timers (cputimer.go). If a thread has no timer, each record of it is
// a visit: there are limits for timers (RLIMIT_SIGPENDING), and a thread has none before the first
// record.
type threads struct {
	s       *shared
	list    map[uint64]*thread // by thread id
	made    uint64             // numbers of timers that threads have or have had
	most    uint64             // of these
	free    []uint64           // of these, those that no thread has
	paid    int64              // CPU time that visits stand for, ns
	without int64              // of this, that of threads without a timer
	off     bool               // no timers: before begin, so in Start's checks, and after stopAll
}

// thread is what is known of a thread. Times are in ns.
type thread struct {
	clock  uint64 // its CPU time as of its latest visit
	passes uint64 // CPU time since then that passes of the drain took
	timer  timer  // on its CPU clock
	number uint64 // of the timer
	tried  bool   // a timer was tried since the latest look at all threads
	ran    bool   // it has had a goroutine
	c      bool   // it counts as a thread of C: it used CPU time and had run no goroutine
	ended  bool   // at the latest look it had ended
	last   *stack // of its latest visit

	visited time.Duration // when that was
}

// A timer's interval is less than a tick of the kernel. So there is a signal at each tick at which
// the thread runs. Its first one comes at a random time.
const timerEvery, timerFirst = 1e6, 4e6 // ns

// overdue is the CPU time after which a timer should have had a signal, in ns, with the slowest
// ticks of the kernel that there are. If there was none, the thread blocks the signal.
const overdue = 50e6

func newThreads(s *shared) *threads {
	return &threads{s: s, most: maxTimers, off: true, list: make(map[uint64]*thread)}
}

// begin allows timers. The kernel counts timers and pending signals of all processes of a user
// together (RLIMIT_SIGPENDING). The program needs most of them, so a session uses a quarter. The
// limit is in a file that needs no further system call.
func (ts *threads) begin() {
	ts.off = false
	text, _ := os.ReadFile("/proc/self/limits")
	_, line, _ := strings.Cut(string(text), "Max pending signals")
	soft, _, _ := strings.Cut(strings.TrimLeft(line, " "), " ")
	if limit, err := strconv.ParseUint(soft, 10, 64); err == nil { // else it is "unlimited", or not known
		ts.most = min(ts.most, limit/4)
	}
}

// of returns the state of a thread. A thread that is new here began after the session, so all
// its CPU time counts.
func (ts *threads) of(tid uint64) *thread {
	t := ts.list[tid]
	if t == nil {
		t = new(thread)
		ts.list[tid] = t
	}
	return t
}

// hit notes a record of a goroutine on a thread. It makes the thread's timer if there is none.
func (ts *threads) hit(tid uint64) *thread {
	t := ts.of(tid)
	t.ran = true
	if !t.timer.exists && !t.tried && !ts.off {
		t.tried = true
		ts.start(t, tid)
	}
	return t
}

// start makes a thread's timer, unless there are too many or the kernel refuses.
func (ts *threads) start(t *thread, tid uint64) {
	n := ts.made
	if last := len(ts.free) - 1; last >= 0 {
		n, ts.free = ts.free[last], ts.free[:last]
	} else if n == ts.most {
		return
	} else {
		ts.made++
	}
	if t.timer.create(cost.ThreadClock(tid), int(ts.s.signal), int(tid), ts.s.cpuTag|n) != nil {
		ts.free = append(ts.free, n)
		return
	}
	t.number = n
	if t.timer.set(1+mem.Cycles()%timerFirst, timerEvery, 0) != nil {
		ts.stop(t)
	}
}

// stop deletes a thread's timer, if it has one.
func (ts *threads) stop(t *thread) {
	if t.timer.exists {
		t.timer.delete()
		ts.free = append(ts.free, t.number)
	}
}

// stopAll deletes all timers.
func (ts *threads) stopAll() {
	for _, t := range ts.list {
		ts.stop(t)
	}
	ts.off = true
}

// visit takes a reading of a thread's clock. It returns the CPU time that the visit stands for, 0
// if the record is no visit.
func (ts *threads) visit(t *thread, clock uint64, timer bool) int64 {
	if clock < t.clock {
		return 0 // the records of a thread need not be in order
	}
	if t.timer.exists && !timer && clock-t.clock < overdue {
		return 0
	}
	since := t.read(clock)
	ts.paid += since
	if !timer {
		ts.without += since
	}
	return since
}

// read takes a reading of the thread's clock, and returns the CPU time since the one before
// without that of the drain's passes.
func (t *thread) read(clock uint64) int64 {
	since := clock - min(t.clock, clock)
	passes := min(t.passes, since)
	t.clock = max(t.clock, clock)
	t.passes -= passes // a record may be older than the pass that it is in
	return int64(since - passes)
}

// monitor returns the thread of the runtime's monitor (runtime.sysmon), 0 if it is not known. Each
// M has a link to the one that was made before. The first is m0. Programs with cgo make one for
// threads of C then (runtime.mstartm0), and the next is that of the monitor (runtime.main). Of two
// Ms, one is later.
func monitor(l *goruntime.Layout, cgo bool, some ...uintptr) uint64 {
	at := 2 // from the end
	if cgo {
		at = 3
	}
	word := make([]uint64, 1)
	for _, m := range some {
		var ms []uintptr
		for m != 0 && len(ms) < 1<<20 {
			ms = append(ms, m)
			if mem.Read(m+l.MAllLink, word) != nil {
				return 0
			}
			m = uintptr(word[0])
		}
		if len(ms) > at && mem.Read(ms[len(ms)-at]+l.MProcID, word) == nil {
			return word[0]
		}
	}
	return 0
}
