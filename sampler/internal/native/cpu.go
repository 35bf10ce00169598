//go:build linux && (amd64 || arm64)

package native

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/cost"
)

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
