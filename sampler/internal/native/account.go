//go:build linux && (amd64 || arm64)

package native

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

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
