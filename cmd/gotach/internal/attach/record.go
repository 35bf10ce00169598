//go:build linux && (amd64 || arm64)

package attach

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/nocore"
	"github.com/gotach/profiler/internal/objects"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/rotate"
	"github.com/gotach/profiler/internal/rows"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
	"golang.org/x/sys/unix"
)

// A recorder samples the goroutines of a process to a file, or to one file after the other.
type recorder struct {
	*Process
	o      Options
	w      *rotate.Writer
	began  time.Duration         // on the monotonic clock
	procs  int                   // GOMAXPROCS of the program when it was looked at last
	cpus   float64               // that it may use
	base   uint64                // wall clock at the begin, µs
	part   time.Duration         // when this file begins, since the begin
	number int                   // of this file, from 1
	failed atomic.Pointer[error] // the first error of an earlier file
	now    time.Duration         // of this tick, since the begin
	before time.Duration         // of the previous tick

	byG   map[uint64]*known
	list  []*known        // in the order of gs
	dueAt []time.Duration // when each of them is looked at next
	spans []span          // their stacks at the last look
	due   []int
	all   bool // this is the last tick of a file, which looks at all of them
	walks []walk

	stacks map[string]*stack // by state and addresses
	key    []byte

	functions objects.Functions
	objects   *objects.List
	named     objects.Told // to this file
	unnamed   string       // why there are none
	sweeper   uint64       // address of the g of the collector's
	swept     motion       // when it was seen last
	collected int64
	batch     []tachyon.Sample
	told      []tachyon.Goroutine
	gone      []uint64

	Recording
	earlier    tachyon.Counts // of earlier files
	alive      int
	most       int           // alive in this file
	processCPU time.Duration // at the begin
	cpu, owed  time.Duration // of the process at this tick; what it used and no sample stands for, if perf is nil
	perf       *perf         // nil: the kernel does not allow it
	given      time.Duration // CPU time that goroutines and rows have been given
	rows       rows.Rows
	hits       []hit // of one thread
	balances   nocore.Balances
	progressed time.Duration
}

// Record samples the process to a new file until ctx ends or the process does. In both cases the
// file is finished. With Rotate it is one file after the other.
func (p *Process) Record(ctx context.Context, path string, o Options) (*Recording, error) {
	r := &recorder{Process: p, o: o, base: uint64(time.Now().UnixMicro()), began: monotonic(), byG: map[uint64]*known{}}
	r.cpus, r.cpu = sampler.CPUs(p.PID), r.cpuOf()
	r.processCPU = r.cpu
	if !p.Pauses {
		if r.perf, r.NoPerf = openPerf(p.PID, o); r.perf != nil {
			defer r.perf.close()
		}
	}
	defer p.traces()()
	if err := r.create(path); err != nil {
		return nil, err
	}
	return &r.Recording, r.close(r.run(ctx))
}

// run ticks. Its error is one of the file.
func (r *recorder) run(ctx context.Context) error {
	pace := pace{interval: r.o.Interval, share: r.o.Budget / 100 * float64(runtime.NumCPU()), cpu: ownCPU(), due: monotonic()}
	for wait := time.Duration(0); ; wait = pace.next() {
		last := false
		select {
		case <-ctx.Done():
			last = true
		case <-time.After(wait):
		}
		r.TicksForBudget = int64(pace.left)
		r.before, r.now = r.now, max(monotonic()-r.began, r.now+time.Microsecond)
		r.Duration = r.now
		if err := r.step(last); err != nil || r.Ended != nil {
			return err
		}
		if r.o.Progress != nil {
			r.o.Progress(r.TicksReached, r.now, r.w.Path())
		}
		if last {
			return nil
		}
	}
}

// step is a tick and what it makes of the files. end says that it is the last one.
func (r *recorder) step(end bool) error {
	r.all = end || r.w.Full()
	if r.Ended = r.tick(end); r.Ended != nil {
		r.now = r.before
		return r.flush()
	}
	err := r.flush()
	r.TicksReached++
	if err == nil && r.all && !end {
		err = r.next()
	}
	return err
}

// tick looks at the goroutines that are due, or at all of them. Its error says that the process
// cannot be read any more. end says that it is the last one.
func (r *recorder) tick(end bool) error {
	grown, err := r.refresh()
	if err != nil {
		return r.ended(err)
	}
	if grown || r.list == nil {
		due, list, spans := make([]time.Duration, len(r.gs)), make([]*known, len(r.gs)), make([]span, len(r.gs))
		for i, g := range r.gs {
			k := r.byG[g]
			if k == nil {
				k = &known{since: r.now}
				r.byG[g] = k
			} else {
				due[i], spans[i] = r.dueAt[k.index], r.spans[k.index]
			}
			k.index, list[i] = i, k
		}
		r.list, r.dueAt, r.spans = list, due, spans
	}
	cpu := max(r.cpu, r.cpuOf())
	r.owed, r.cpu = min(r.owed+cpu-r.cpu, maxOwed), cpu
	r.interrupts(end)
	r.due = r.due[:0]
	for i, at := range r.dueAt {
		if r.all || at <= r.now {
			r.due = append(r.due, i)
		}
	}
	r.walks = r.walks[:0]
	if err = r.heads(r.due, r.look); err == nil {
		err = r.readAll()
	}
	if err != nil {
		return r.ended(err)
	}
	if end {
		for _, k := range r.list {
			r.forgive(k)
		}
	}
	r.rows.Write(r, r.now, r.all)
	return nil
}

// ended returns why a process cannot be read any more.
func (r *recorder) ended(err error) error {
	// The first thread may be gone: for an instant, while another one goes on with another program,
	// or for good, in a program of C.
	for range 100 {
		if ids, _ := tasks(r.PID); !errors.Is(err, unix.ESRCH) || len(ids) < 2 {
			break
		}
		time.Sleep(time.Millisecond)
		if _, err = r.word(0); err == nil {
			err = unix.EFAULT
		}
	}
	switch {
	case errors.Is(err, unix.ESRCH):
		return errors.New("the process has ended")
	case errors.Is(err, unix.EFAULT), errors.Is(err, unix.EPERM):
		return errors.New("the process runs another program now")
	}
	return err
}

// look is told what a runtime.g has now.
func (r *recorder) look(i int, b []byte) {
	k := r.list[i]
	if r.unmoved(k, b) {
		r.rests(i)
		return
	}
	r.dueAt[i] = r.now // and at the next tick
	h := parse(b, r.program.layout)
	r.spans[i] = span{h.lo, h.hi}
	k.start, k.own = h.start, own.Created(r.creator(h.gopc).Func)
	alive, system := goruntime.Alive(h.status), k.own || r.system(&h)
	if alive && system {
		if r.sweeper == 0 && r.program.funcs.at(h.start).name == "runtime.bgsweep" {
			r.sweeper = r.gs[i]
		}
		r.systemRan(k, &h)
	}
	alive = alive && !system
	if k.live && (!alive || h.id != k.id) {
		r.end(k)
	}
	if !alive {
		if !system {
			r.forgive(k)
		}
		r.rested(i)
		return
	}
	if !k.live {
		r.begin(k, &h)
	}
	if h.labels != k.labels {
		r.relabel(r.gs[i], k, &h)
	}
	if h.held && r.threads == nil {
		k.since = r.now
		return
	}
	pcs, ok := r.calls(k, &h)
	r.walks = append(r.walks, walk{index: i, head: h, pcs: pcs, ok: ok})
}

// readAll reads the goroutines that look has found to have moved.
func (r *recorder) readAll() error {
	if err := r.Process.walks(r.walks, fewTries); err != nil {
		return err
	}
	r.objectsOf(r.walks)
	r.objects.Turn(r.now, r.collections())
	r.farEndsOf(r.walks)
	for i := range r.walks {
		w := &r.walks[i]
		k := r.list[w.index]
		switch {
		case !w.ok:
			r.Torn++
			r.Dropped++
			k.since = r.now
		case r.perf != nil && (w.pcs == nil || w.head.onSystemStack(r.program.layout)):
			r.runs(k, &w.head)
		default:
			r.visited(k, w)
		}
	}
	return nil
}

// runs is told that a goroutine runs. Perf says when it has a core. So this only says that its wait
// has ended: the time since then is left open until what it is owed is paid, or until it is found
// waiting. If it has not stopped, and time stays open for longer than perf needs to say what it
// used, it had no core. If it has stopped, the balance says how much of that time it had none.
func (r *recorder) runs(k *known, h *head) {
	r.woke(k)
	same := k.runs && k.motion == h.motion
	k.motion, k.since = h.motion, r.now
	if k.sampled && !k.runs && r.before > k.last {
		r.add(k, k.status, r.before, k.stack)
	}
	k.runs = true
	k.balance.Found(r.now - r.before)
	open := r.now - 2*r.perf.period
	if r.all {
		open = r.now
	}
	if waited := open - k.owes; k.stack != nil && !same && waited > k.last { // it waited, and then it ran
		r.add(k, k.status, waited, k.stack)
	}
	r.repay(k)
	r.noCore(k, open)
}

// maxOwed bounds the CPU time that is made up for later: the runtime uses some without a goroutine.
const maxOwed = time.Second

// onCPU says whether a running goroutine had a core. Nobody knows which ones had, so as many count
// as the process used CPU time.
func (r *recorder) onCPU(k *known) tachyon.Status {
	weight := r.now - k.last
	switch {
	case r.threads != nil: // a core
		return tachyon.OnCPU
	case r.owed < weight/2:
		return 0
	}
	r.owed -= weight
	return tachyon.OnCPU
}

// visited is told the stack of a goroutine.
func (r *recorder) visited(k *known, w *walk) {
	r.woke(k)
	s, status := r.stackOf(w)
	status |= k.status & tachyon.MainThread
	var moved tachyon.Status
	if k.stack != nil && k.status == status && status&(tachyon.Unknown|tachyon.HasGIL) == 0 && k.seq != w.head.seq && k.plain != nil && slices.Equal(k.plain.ids, s.ids) {
		moved = tachyon.Moved
	}
	k.motion, k.status, k.runs = w.head.motion, status, false
	k.stack = r.waitsFor(k, w, s)
	if status&tachyon.Unknown != 0 {
		k.call = s
	}
	if k.sampled {
		k.since = r.now
	}
	r.repay(k)
	r.noCore(k, min(r.now, k.last+k.balance.Due()))
	r.add(k, status|moved, r.now, k.stack)
}
