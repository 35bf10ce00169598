//go:build linux && (amd64 || arm64)

package attach

import "github.com/gotach/profiler/internal/goruntime"

// maxCalls bounds the calls of a stack that are read. Files keep 256 frames.
const maxCalls = 1000

// How an unwinding ended.
type ending int

const (
	whole  ending = iota // at the stack's root, or after maxCalls
	short                // the bytes that were read are too few
	broken               // not a stack: it changed meanwhile
)

// unwind appends the addresses of a stack's calls to pcs, innermost first: the instruction that is
// next, and return addresses. b is the stack from h.sp on. As the runtime does, it goes by the
// sizes of frames in the tables of functions.
func (t *functions) unwind(pcs []uint64, h *head, b []byte) ([]uint64, ending) {
	pc, at := h.pc, uint64(0)
	size := h.hi - h.sp
	for range maxCalls {
		p := t.at(pc)
		if !p.ok {
			return pcs, broken
		}
		pcs = append(pcs, pc)
		if p.top {
			return pcs, whole
		}
		ret := at + p.delta
		next := ret + 8
		if arm64 {
			ret, next = at, at+p.delta
		}
		switch {
		case ret+8 > size, next > size, arm64 && p.delta == 0 && len(pcs) > 1:
			return pcs, broken
		case arm64 && p.delta == 0: // it has no frame yet
			pc = h.lr
			continue
		case ret+8 > uint64(len(b)) || next > uint64(len(b)):
			return pcs, short
		}
		pc, at = le.Uint64(b[ret:]), next
	}
	return pcs, whole
}

// frames returns the calls at addresses, as the runtime prints them: without wrappers and without
// runtime.goexit.
func (t *functions) frames(pcs []uint64) []Frame {
	out := []Frame{}
	panics := false
	for i, pc := range pcs {
		p := t.at(pc)
		for j, f := range p.frames {
			elide := p.wraps[j] && !panics && i > 0
			panics = f.Func == "runtime.gopanic" || f.Func == "runtime.sigpanic" || f.Func == "runtime.panicwrap"
			if p.name != "runtime.goexit" && !elide {
				out = append(out, f)
			}
		}
	}
	return out
}

// begins returns the function that a goroutine begins with, which has not run yet. For go f(x) the
// runtime has a wrapper that the compiler made; begins returns f, or the go statement if the
// wrapper's call cannot be told, as with an interface's method.
func (p *Process) begins(h *head) Frame {
	t, entry := &p.program.funcs, h.start
	for range 4 { // a wrapper may call a wrapper
		at := t.at(entry)
		if len(at.frames) == 0 {
			break
		}
		if n := len(at.frames) - 1; !at.wraps[n] {
			return at.frames[n]
		}
		var inlined *Frame
		if entry, inlined = t.callee(entry); inlined != nil {
			return *inlined
		}
	}
	return p.creator(h.gopc)
}

// callee returns the entry of the function that a wrapper calls, or the call itself if it is
// inlined. The wrapper's arguments are computed before the goroutine begins, so the first call is
// the right one, except for calls of the runtime that the compiler adds.
func (t *functions) callee(wrapper uint64) (entry uint64, inlined *Frame) {
	code := make([]byte, 1<<12)
	if t.mem.read(wrapper, code) != nil {
		return 0, nil
	}
	for i := 0; i+8 <= len(code); i += goruntime.PCQuantum {
		pc := wrapper + uint64(i)
		p := t.find(pc + goruntime.PCQuantum) // as a return address
		if p.entry != wrapper {
			break
		}
		if n := len(p.frames); n > 1 {
			return 0, &p.frames[n-2]
		}
		if to := uint64(goruntime.CallOf(le.Uint64(code[i:]), uintptr(pc))); to != 0 {
			if f := t.at(to); f.entry == to && !goruntime.Hidden(f.name) {
				return to, nil
			}
		}
	}
	return 0, nil
}
