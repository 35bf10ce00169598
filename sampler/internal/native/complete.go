//go:build linux && (amd64 || arm64)

package native

import "github.com/gotach/profiler/internal/goruntime"

// complete returns a record's PCs as return addresses, innermost first. It adds the callers
// that a frame pointer walk misses and leaves out PCs that are not Go code. It returns false
// for a torn stack, such as one that does not end in a root function. The result is valid
// until the next call.
func (st *stacks) complete(r record) ([]uint64, bool) {
	flags := r.flags()
	c := completion{stacks: st, r: r, in: r.pcs(), out: st.scratch[:0], skip: -1}
	c.exact = flags&flagRunning != 0 && flags&flagVDSO == 0
	c.frameless = c.exact && flags&flagUnwound == 0 || r.status() == goruntime.GRunnable || r.status() == goruntime.GPreempted
	ok := true
	if flags&flagForeign != 0 {
		ok, c.in = c.addForeign(), nil
	}
	for i := 0; ok && i < len(c.in); i++ {
		if i == c.skip {
			continue
		}
		if c.calledByC(i) {
			break
		}
		ok = c.add(i)
	}
	st.scratch = c.out
	if !ok || len(c.out) == 0 {
		return nil, false
	}
	return c.out, flags&(flagCut|flagThread) != 0 || roots[c.last()]
}

// completion is the state of complete for one stack.
type completion struct {
	*stacks
	r    record
	in   []uint64 // the record's PCs
	out  []uint64 // return addresses so far
	skip int      // index of a PC that is in out already

	// exact says that the next PC is an instruction's own address, not a return address.
	// frameless says that its function may have no frame, so that the frame pointer chain
	// misses its caller.
	exact, frameless bool
}

// address returns PC i as a return address.
func (c *completion) address(i int) uint64 {
	if c.exact {
		return c.in[i] + goruntime.PCQuantum
	}
	return c.in[i]
}

// last returns the name of the outermost function in out.
func (c *completion) last() string { return c.pc(c.out[len(c.out)-1]).name }

// calledByC reports whether the stack ends before PC i, because there a thread of C called
// Go.
func (c *completion) calledByC(i int) bool {
	return len(c.out) > 0 && c.last() == "runtime.cgocallback" && c.pc(c.address(i)).name != "runtime.cgocall"
}

// add appends PC i and those of its callers that in misses. It returns false if the stack is
// torn.
func (c *completion) add(i int) bool {
	pc, at := c.in[i], c.address(i)
	p := c.pc(at)
	system := c.r.system()
	exact, frameless := c.exact, c.frameless
	c.exact, c.frameless = false, false // most PCs are return addresses of functions with a frame
	switch {
	case len(p.frames) == 0:
		return i < system // C code or the vDSO, which is left out
	case c.r.flags()&flagSaved != 0 && i == system:
		return c.addSaved(i, at)
	case exact && system == 0 && (p.name == "gogo" || p.name == "runtime.gogo"):
		return false // it is switching stacks: SP is already the goroutine's, other registers are not
	}
	c.out = append(c.out, at)
	name := p.name // of the function whose caller comes next
	if frameless {
		if name == "runtime.asyncPreempt" && c.leaf(pc) != goruntime.LeafFramed {
			return c.addPreempted(pc)
		}
		var ok bool
		if name, ok = c.addCaller(pc, name); !ok {
			return false
		}
	}
	switch {
	case name == "runtime.asyncPreempt" && i+1 < len(c.in):
		return c.interrupted(i)
	case name == "runtime.sigpanic":
		c.exact = true
	}
	return true
}

// addSaved appends PC i, the first one that comes from g.sched. It returns false unless the
// last PC on the system stack is in a function that saves g.sched.
func (c *completion) addSaved(i int, at uint64) bool {
	if i == 0 {
		return false
	}
	saver := c.in[0]
	if len(c.out) > 0 {
		saver = c.out[len(c.out)-1]
	}
	if !savers[c.pc(saver).name] {
		return false
	}
	if last := len(c.out) - 1; last > 0 && c.last() == "runtime.morestack" {
		c.out = c.out[:last] // tracebacks of the runtime leave it out
	}
	if c.pc(at).name == "runtime.systemstack_switch" {
		return true
	}
	c.out = append(c.out, at)
	if caller := c.r[headFrame0]; goruntime.IsReturn(caller) && c.leaf(c.in[i]) != goruntime.LeafFramed {
		c.out = append(c.out, caller)
	}
	return true
}

// addPreempted appends the callers of asyncPreempt, whose frame does not exist yet at pc. Its
// return address is the instruction at which the goroutine was interrupted, so no call comes
// before it.
func (c *completion) addPreempted(pc uint64) bool {
	f, caller := c.r[headSP0], c.r[headSP1]
	if c.leaf(pc) == goruntime.LeafAtSP1 {
		f, caller = c.r[headSP1], 0
	}
	if len(c.pc(f+goruntime.PCQuantum).frames) == 0 {
		return false
	}
	c.out = append(c.out, f+goruntime.PCQuantum)
	if c.leaf(f) != goruntime.LeafFramed {
		if !goruntime.IsReturn(caller) {
			return false
		}
		c.out = append(c.out, caller)
	}
	return true
}

// addCaller appends the caller of the function at pc if the frame pointer chain misses it. It
// returns the name of the function whose caller comes next: the appended one, or else the
// given one.
func (c *completion) addCaller(pc uint64, name string) (next string, ok bool) {
	caller := uint64(0)
	state := c.leaf(pc)
	switch state {
	case goruntime.LeafAtSP:
		caller = c.r[headSP0]
	case goruntime.LeafAtSP1:
		caller = c.r[headSP1]
	}
	if caller == 0 || !goruntime.IsReturn(caller) {
		return name, true
	}
	c.out = append(c.out, caller)
	next = c.pc(caller).name
	// A function calls morestack, which has no frame, before it has its own frame.
	if delta, ok := c.table.SPDelta(uintptr(caller) - 1); ok && delta == 0 && next != "runtime.goexit" {
		if ctxLR != 0 || state != goruntime.LeafAtSP || !goruntime.IsReturn(c.r[headSP1]) {
			return "", false
		}
		c.out = append(c.out, c.r[headSP1])
	}
	return next, true
}

// interrupted prepares for PC i+1. asyncPreempt interrupted its function, so that PC is an
// instruction's own address. If the function has no frame there, interrupted appends the PC
// and its caller.
func (c *completion) interrupted(i int) bool {
	pc := c.in[i+1]
	if c.leaf(pc) == goruntime.LeafFramed {
		c.exact = true
		return true
	}
	caller := uint64(0)
	if i < 2 {
		caller = c.r[headFrame0+i]
	}
	if !goruntime.IsReturn(caller) {
		return false
	}
	c.out = append(c.out, pc+goruntime.PCQuantum, caller)
	c.skip = i + 1
	return true
}

// savers are the functions that save g.sched, leave the goroutine's stack and end the frame
// pointer chain.
var savers = map[string]bool{
	"runtime.mcall": true, "runtime.morestack": true, "runtime.systemstack": true, "runtime.gogo": true, "gogo": true,
	"runtime.mstart": true, "runtime.mstart0": true, "runtime.mstart1": true,
}

// roots are the functions that a stack may end in.
var roots = map[string]bool{"runtime.goexit": true, "runtime.cgocallback": true}

// scheduling reports whether a record is of a thread in the scheduler, although it has a goroutine:
// the one that has just stopped, or the one that comes next. If so, it makes it a record of a
// thread, as in a traceback of the runtime.
func (st *stacks) scheduling(r record) bool {
	n := r.system()
	if n == 0 || st.pc(r[headWords+n-1]).name != "runtime.mcall" {
		return false
	}
	r[0] = r[0]&^(flagSaved<<48) | flagThread<<48
	r[headCounts] = uint64(n)<<16 | uint64(n)
	return true
}

// Goroutines that run, but whose stack cannot be read, or not all of it. They are recorded
// nevertheless: the goroutine, that it runs, and its CPU time are known.
//
// Compilers of other languages run their code on stacks of their own, which may be in the Go heap.
// Go has no tables for that code, and has not noted where it was called. Mostly the frame pointer
// chain leads back to the goroutine's stack: such code keeps frame pointers too, or leaves the
// register alone. The handler's part is in walk.go.

// addForeign appends the PCs of a goroutine in foreign code. It returns false if the stack is not
// known down to its root.
func (c *completion) addForeign() bool {
	in, out := c.in, c.out
	leaf := in[0] + goruntime.PCQuantum
	_, entry, _ := c.table.Find(uintptr(in[0]))
	if len(c.pc(leaf).frames) == 0 {
		leaf = noSymbols
	}
	out = append(out, leaf)
	if len(in) > 1 {
		ret, calls := c.foreignCaller(in[1], entry)
		if leaf != noSymbols && !calls {
			out = append(out, noSymbols) // between the leaf and Go's code
		}
		if ret != 0 {
			out = append(out, ret)
		}
		out = append(out, in[1:]...)
	}
	c.out = out
	return len(in) > 1
}

// foreignCaller returns the return address in the function that has called foreign code, 0 if it is
// not known. next is the return address in that function's caller, leaf the entry of the function
// that runs, 0 if Go does not know that. calls says that the function calls leaf.
func (c *completion) foreignCaller(next uint64, leaf uintptr) (ret uint64, calls bool) {
	first, second := c.r[headSP0], c.r[headSP1]
	callee := goruntime.CallAt(uintptr(next) - goruntime.CallSize)
	if _, entry, _ := c.table.Find(callee); entry != callee {
		callee = 0 // it is not a direct call
	}
	for _, ret := range []uint64{first, second} {
		if !goruntime.IsReturn(ret) {
			continue
		}
		_, entry, _ := c.table.Find(uintptr(ret) - 1)
		calls := leaf != 0 && goruntime.CallAt(uintptr(ret)-goruntime.CallSize) == leaf
		if callee == 0 && (calls || second == 0) || callee != 0 && entry == callee {
			return ret, calls
		}
	}
	return 0, false
}
