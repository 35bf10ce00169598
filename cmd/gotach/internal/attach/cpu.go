//go:build linux && (amd64 || arm64)

package attach

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/rows"
	"github.com/gotach/profiler/tachyon"
)

// A debt is CPU time that was used, and that no sample stands for yet.
type debt struct {
	stack  []uint32
	status tachyon.Status
	cpu    time.Duration
}

// maxDebts bounds the debts to a goroutine. More of them are those of an unknown one.
const maxDebts = 64

// interrupts takes what perf has found since the last tick. At the end of a file it gives away all
// CPU time of the threads, at the end of all that of the process.
func (r *recorder) interrupts(end bool) {
	if r.perf == nil {
		return
	}
	for _, t := range r.perf.threads {
		r.hits = r.hits[:0]
		r.perf.read(t, func(x *interrupt) { r.interrupted(t, x) })
		if len(r.hits) > 0 || r.all {
			r.pay(t)
		}
	}
	_ = r.perf.list(false, r.now) // if the process has ended, reading its memory says so
	if end {
		r.cpu = max(r.cpu, r.cpuOf())
		r.row(rows.Unknown, nil, r.cpu-r.processCPU-r.given)
	}
}

// A hit is CPU time of a thread, of a goroutine or, if k is nil, of a row.
type hit struct {
	k   *known
	row rows.Kind
	debt
}

// pay gives away the CPU time of a thread since the last time, as the hits say. What it has used
// since the last of them, and what the kernel needed for switching, belongs to the last one. On a
// virtual machine, hits may say more than the thread has used.
func (r *recorder) pay(t *thread) {
	sum := time.Duration(0)
	for i := range r.hits {
		sum += r.hits[i].cpu
	}
	used := sum
	if clock := t.clock(); clock > 0 {
		used = max(clock-t.given, 0)
	}
	t.given += used
	if n := len(r.hits); n > 0 {
		t.last = r.hits[n-1]
	}
	t.last.cpu = used
	for i := range r.hits {
		h := &r.hits[i]
		h.cpu = min(time.Duration(float64(h.cpu)*min(float64(used)/float64(max(sum, 1)), 1)), t.last.cpu)
		t.last.cpu -= h.cpu
	}
	for _, h := range append(r.hits, t.last) {
		if h.k != nil {
			r.owe(h.k, h.debt)
		} else {
			r.row(h.row, h.stack, h.cpu)
		}
	}
}

// interrupted notes what a thread was interrupted in.
func (r *recorder) interrupted(t *thread, x *interrupt) {
	c := r.program.funcs.interrupted(x)
	h := hit{r.owner(t, x, c), rows.Scheduler, debt{nil, tachyon.HasGIL, x.cpu}}
	if len(c.pcs) > 0 {
		kind, first := "on", []Frame(nil)
		if x.kernel && strings.HasSuffix(r.program.funcs.at(c.pcs[0]).name, ".Syscall6") {
			h.status, kind, first = tachyon.Unknown, "call", []Frame{{Func: "[syscall]"}} // as in a program's own profile
		}
		h.stack = r.stackAt(kind, c.pcs, func() []Frame { return append(first, r.program.funcs.frames(c.pcs)...) }).ids
	}
	switch k := h.k; {
	case k != nil && k.own, strings.HasPrefix(c.root, "github.com/gotach/profiler/sampler/"): // the latter handles its signals, and takes its ticks
		h = hit{row: rows.Profiler, debt: debt{cpu: x.cpu}}
	case k == nil && c.root == "runtime.goexit":
		h.row = rows.Unknown
	case k == nil && len(c.pcs) == 0 && t.m == 0:
		h.row = rows.CThreads
	case k == nil:
	case h.stack == nil: // in C
		h.stack, h.status = cmp.Or(k.call, r.running(k.start)).ids, tachyon.Unknown
	case !r.perf.inKernel && k.call != nil && x.cpu > 2*r.perf.period:
		// While the thread is in the kernel there are no samples.
		r.hits = append(r.hits, hit{k, 0, debt{k.call.ids, tachyon.Unknown, x.cpu - r.perf.period}})
		h.cpu = r.perf.period
	}
	r.hits = append(r.hits, h)
}

// owner returns the goroutine that a thread was interrupted in, nil if there is none or it is not
// known. In Go's code a register has the address of the runtime.g. Assembly may use it for other
// things, and on the system stack it is that of the thread's own g.
func (r *recorder) owner(t *thread, x *interrupt, c calls) *known {
	l := r.program.layout
	if c.root != "" && c.root != "runtime.goexit" {
		return nil // the scheduler, or a signal's handler
	}
	if t.m == 0 {
		m, _ := r.word(x.g + uint64(l.GM)) // nothing is at 0
		g0, _ := r.word(m + uint64(l.MG0))
		curg, _ := r.word(m + uint64(l.MCurG))
		if m != 0 && (g0 == x.g || curg == x.g) {
			t.m = m
		}
	}
	if k := r.byG[x.g]; k != nil && len(c.pcs) > 0 {
		return k
	}
	base := x.base()
	if i := slices.IndexFunc(r.spans, func(s span) bool { return x.sp >= s.lo && x.sp < s.hi || base >= s.lo && base < s.hi }); i >= 0 {
		return r.list[i]
	}
	// It is the one that the thread runs now, unless that has changed since. Where t.m is 0,
	// nothing can be read.
	g, _ := r.word(t.m + uint64(l.MCurG))
	k, n := r.byG[g], len(c.pcs)
	if k != nil && (n > 1 && c.root == "runtime.goexit" && r.program.funcs.at(c.pcs[n-2]).entry == k.start || n == 0 && k.status&tachyon.Unknown != 0) {
		return k
	}
	return nil
}

// base returns where frame pointers lead to from the part of the stack that was copied: from the
// system stack to that of the goroutine.
func (x *interrupt) base() uint64 {
	fp := x.fp
	for range len(x.stack) / 16 {
		if at := fp - x.sp; at <= uint64(len(x.stack)-8) {
			fp = le.Uint64(x.stack[at:])
		}
	}
	return fp
}

// owe notes that a goroutine has used CPU time. It is looked at at this tick.
func (r *recorder) owe(k *known, d debt) {
	if d.cpu <= 0 {
		return
	}
	last := len(k.debts) - 1
	switch {
	case last >= 0 && k.debts[last].status == d.status && slices.Equal(k.debts[last].stack, d.stack):
		k.debts[last].cpu += d.cpu
	case last+1 == maxDebts:
		r.row(rows.Unknown, d.stack, d.cpu)
		return
	default:
		k.debts = append(k.debts, d)
	}
	k.owes += d.cpu
	r.given += d.cpu
	r.dueAt[k.index] = r.now
	if d.status&tachyon.HasGIL != 0 {
		k.ran = d.stack
		if k.live {
			k.balance.Used(d.cpu)
		}
	}
}

// noCore adds a sample that says that a goroutine ran without a core until a time.
func (r *recorder) noCore(k *known, until time.Duration) {
	if until <= k.last {
		return
	}
	k.balance.Told(until - k.last)
	r.add(k, tachyon.HasGIL|k.status&tachyon.MainThread, until, r.ranAt(k))
}

// repay adds samples of what a goroutine is owed, at most until now.
func (r *recorder) repay(k *known) {
	for len(k.debts) > 0 && r.now > k.last {
		d := &k.debts[0]
		on := min(d.cpu, r.now-k.last)
		r.add(k, d.status|tachyon.OnCPU|k.status&tachyon.MainThread, k.last+on, d.stack)
		k.owes -= on
		if d.cpu -= on; d.cpu == 0 {
			k.debts = slices.Delete(k.debts, 0, 1)
		}
	}
}

// forgive gives what a goroutine is owed that has ended to an unknown one.
func (r *recorder) forgive(k *known) {
	for _, d := range k.debts {
		r.rows.Add(rows.Unknown, d.stack, d.cpu)
	}
	k.debts, k.owes = nil, 0
}

// systemRan adds samples of CPU time of a goroutine of the runtime. Its waits have none: a marker
// says where CPU time begins.
func (r *recorder) systemRan(k *known, h *head) {
	if len(k.debts) == 0 {
		return
	}
	if k.id != h.id {
		k.id, k.interpreter, k.sampled, k.told, k.parent, k.last = h.id, tachyon.Runtime, true, false, h.parent, 0
	}
	from := r.now - k.owes
	if !k.told {
		k.last = max(from, k.last, r.part)
	}
	r.add(k, 0, from, k.debts[0].stack)
	r.repay(k)
}

// row gives CPU time to a kind of row.
func (r *recorder) row(kind rows.Kind, stack []uint32, cpu time.Duration) {
	r.given += max(cpu, 0)
	r.rows.Add(kind, stack, cpu)
}

// Frame is for rows.
func (r *recorder) Frame(f tachyon.Frame) uint32 { return r.w.Intern(f) }

// Row is for rows.
func (r *recorder) Row(thread uint64, status tachyon.Status, at time.Duration, stack []uint32) {
	r.sample(thread, tachyon.Process, status, at, stack)
}

// sample adds a sample of a thread, whose previous one was before.
func (r *recorder) sample(id uint64, interpreter uint32, status tachyon.Status, at time.Duration, stack []uint32) {
	r.batch = append(r.batch, tachyon.Sample{Thread: id, Interpreter: interpreter, Status: status, Time: r.base + micros(at), Stack: stack})
}

// calls are those of an interrupted thread.
type calls struct {
	pcs  []uint64
	root string // the function at which the stack ends or leaves the goroutine, "" if it was not found
}

// interrupted returns the calls of a thread. By the tables of functions it goes as far as the stack
// was copied, and then along frame pointers, which also lead from the system stack to that of the
// goroutine.
func (t *functions) interrupted(x *interrupt) (c calls) {
	h := head{hi: x.sp + 1<<30, lr: x.lr}
	h.sp, h.pc = x.sp, x.pc+1 // as if it were a return address
	pcs, _ := t.unwind(make([]uint64, 0, 16), &h, x.stack)
	if i := slices.IndexFunc(pcs, func(pc uint64) bool { return t.at(pc).writesSP }); i >= 0 {
		pcs = pcs[:i+1] // it may be another stack there
	}
	if len(pcs) == 0 {
		return c
	}
	last := pcs[len(pcs)-1]
	if len(pcs) == 1 {
		last--
	}
	if !t.at(pcs[len(pcs)-1]).top {
		chain := x.chain[min(max(len(pcs)-3, 0), len(x.chain)):]
		switch i := slices.Index(chain, last); {
		case i >= 0:
			pcs = append(pcs, chain[i+1:]...)
		case len(pcs) == 2 && len(chain) > 0 && chain[0] == x.pc:
			// The function has no frame, or not yet. Then the chain leaves out its caller, which
			// was found on the stack.
			pcs = append(pcs, chain[1:]...)
		}
	}
	for i, pc := range pcs {
		p := t.at(pc)
		if !p.ok {
			pcs = pcs[:i]
			break
		}
		if p.leaves {
			c.root = p.name
			if p.name != "runtime.schedule" {
				pcs = pcs[:i+1] // the goroutine that it has left may run on another thread by now
				break
			}
		}
		if p.top {
			pcs, c.root = pcs[:i+1], cmp.Or(c.root, p.name)
			break
		}
	}
	c.pcs = pcs
	return c
}
