//go:build linux && (amd64 || arm64)

package attach

// maxCalls bounds the calls of a stack that are read. Files keep 256 frames.
const maxCalls = 1000

// How an unwinding ended.
type ending int

const (
	whole  ending = iota // at the stack's root, or after maxCalls
	short                // the bytes that were read are too few
	broken               // not a stack: it changed meanwhile
)

// unwind appends the addresses of a stack's calls to pcs, innermost first: the instruction that is next, and return addresses. b is the
// stack from h.sp on. As the runtime does, it goes by the sizes of frames in the tables of functions.
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
		case ret+8 > size || next > size:
			return pcs, broken
		case arm64 && p.delta == 0 && len(pcs) == 1: // it has no frame yet
			pc = h.lr
			continue
		case arm64 && p.delta == 0:
			return pcs, broken
		case ret+8 > uint64(len(b)) || next > uint64(len(b)):
			return pcs, short
		}
		pc, at = le.Uint64(b[ret:]), next
	}
	return pcs, whole
}

// frames returns the calls at addresses, as the runtime prints them: without wrappers and without runtime.goexit.
func (t *functions) frames(pcs []uint64) []Frame {
	var out []Frame
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
