//go:build linux && (amd64 || arm64)

package native

import "runtime"

// leafState says where the return address of an interrupted function is if the frame pointer
// chain misses it: memmove and similar functions have no frame, and other functions have none
// at their first and last instructions.
type leafState uint8

const (
	leafFramed leafState = iota // in the chain
	leafAtSP                    // at SP (or in LR)
	leafAtSP1                   // in the word after SP
)

// leaf returns the state of the function at pc.
func (st *stacks) leaf(pc uint64) leafState {
	s, ok := st.leaves[pc]
	if !ok {
		if delta, ok := st.table.spDelta(uintptr(pc)); ok {
			s = readLeaf(uintptr(pc), delta)
		}
		st.leaves[pc] = s
	}
	return s
}

// isReturn reports whether an address is the return address of a call in Go code.
func isReturn(addr uint64) bool {
	if addr < 4096 {
		return false
	}
	f := runtime.FuncForPC(uintptr(addr) - 1)
	return f != nil && (afterCall(uintptr(addr)) || f.Name() == "runtime.goexit")
}
