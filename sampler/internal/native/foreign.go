//go:build linux && (amd64 || arm64)

package native

import (
	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/tachyon"
)

// Goroutines that run, but whose stack cannot be read, or not all of it. They are recorded
// nevertheless: the goroutine, that it runs, and its CPU time are known.
//
// Compilers of other languages run their code on stacks of their own, which may be in the Go heap.
// Go has no tables for that code, and has not noted where it was called. Mostly the frame pointer
// chain leads back to the goroutine's stack: such code keeps frame pointers too, or leaves the
// register alone. The handler's part is in foreignwalk.go.

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

// buildBare makes the stack of a goroutine whose stack is not known: what it does now, and the
// function that it began with.
func (st *stacks) buildBare(s *stack, r record) {
	s.valid = true
	s.reason = st.reason(r)
	st.addReason(s, s.reason)
	what := tachyon.FuncNotRead
	if r.flags()&flagBare == 0 {
		for _, f := range st.pc(r.pcs()[0] + goruntime.PCQuantum).frames {
			s.ids = append(s.ids, f.id)
		}
		what = tachyon.FuncNoSymbols
	}
	s.ids = append(s.ids, st.out.Frame(tachyon.Frame{Func: what}))
	if r[headStartPC] == 0 {
		return
	}
	if b := st.beginning(r); b.pc != r[headGoPC]-goruntime.PCQuantum { // else it is the go statement, which is on another stack
		s.ids, s.user = append(s.ids, b.id), b.user
	}
}
