//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"strings"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// Goroutines that have not run yet. Such a goroutine has no frames, only the function that it
// begins with. For go f(x) that is a function that the compiler made, f's caller: the stack shows
// f instead.

// notStarted reports whether a record's goroutine has not run yet: then the runtime has set its PC
// to the first instruction of its function.
func (r record) notStarted() bool {
	return r.status() == goruntime.GRunnable && r[headStartPC] != 0 && r.pcs()[0] == r[headStartPC]
}

// buildNotStarted makes the stack of a goroutine that has not run yet.
func (st *stacks) buildNotStarted(s *stack, r record) {
	b := st.beginning(r)
	st.addReason(s, source.NotStarted)
	s.ids = append(s.ids, b.id)
	s.user, s.leaf = b.user, b.pc
}

// beginning returns the frame of the function that a record's goroutine began with.
func (st *stacks) beginning(r record) begin {
	b, ok := st.started[r[headStartPC]]
	if !ok {
		b = st.begin(uintptr(r[headStartPC]), r[headGoPC])
		st.started[r[headStartPC]] = b
	}
	return b
}

// begin finds the function that a go statement calls. entry is the function that the goroutine
// begins with. If that is a wrapper, and the function that it calls cannot be told, as with an
// interface's method, begin returns the go statement itself.
func (st *stacks) begin(entry uintptr, gopc uint64) begin {
	for range 4 { // a wrapper may call a wrapper
		frames := st.at(entry)
		if len(frames) == 0 {
			break
		}
		f := frames[len(frames)-1]
		if !isWrapper(f.Function, f.File) {
			return st.beginAt(f, entry)
		}
		callee, inlined := st.callee(entry)
		if inlined != nil {
			return st.beginAt(*inlined, callee)
		}
		if callee == 0 {
			break
		}
		entry = callee
	}
	if p := st.pc(gopc); len(p.frames) > 0 {
		return begin{frame: p.frames[0], pc: gopc - goruntime.PCQuantum}
	}
	return begin{frame: frame{id: st.out.Frame(tachyon.Frame{Func: "[unknown function]"})}, pc: uint64(entry)}
}

func (st *stacks) beginAt(f runtime.Frame, pc uintptr) begin {
	if own.Hidden(f.Function) {
		return begin{frame: frame{id: st.out.Frame(tachyon.Frame{Func: own.Profiler})}}
	}
	id := st.out.Frame(tachyon.Frame{File: f.File, Func: f.Function, Line: int32(f.Line)})
	return begin{frame: frame{id: id, user: !strings.HasPrefix(f.Function, "runtime.")}, pc: uint64(pc)}
}

// at returns the frames at the instruction at pc, the innermost first. There are several if it
// belongs to an inlined call.
func (st *stacks) at(pc uintptr) []runtime.Frame {
	if runtime.FuncForPC(pc) == nil {
		return nil
	}
	return st.frames(pc + 1) // as a return address
}

// maxWrapper bounds the length in bytes of the code of a wrapper.
const maxWrapper = 1 << 12

// callee returns the entry of the function that a wrapper calls, 0 if it cannot be told. If the
// call is inlined, callee returns its frame and an address in its code. The wrapper's arguments are
// computed before the goroutine begins, so the first call is the right one, except for calls of the
// runtime that the compiler adds.
func (st *stacks) callee(wrapper uintptr) (pc uintptr, inlined *runtime.Frame) {
	for pc := wrapper; pc < wrapper+maxWrapper; pc += goruntime.PCQuantum {
		if _, entry, _ := st.table.Find(pc); entry != wrapper {
			break
		}
		if frames := st.at(pc); len(frames) > 1 {
			return pc, &frames[len(frames)-2]
		}
		to := goruntime.CallAt(pc)
		if f, entry, _ := st.table.Find(to); f == 0 || entry != to {
			continue
		}
		if f := runtime.FuncForPC(to); f != nil && !goruntime.Hidden(f.Name()) {
			return to, nil
		}
	}
	return 0, nil
}
