//go:build linux && (amd64 || arm64)

package native

import "runtime"

// leafState says where the caller of an interrupted function is to be found
// when the frame pointer chain does not have it: memmove and its like have no
// frame, and all others have none at their first and last instructions.
type leafState uint8

const (
	leafFramed leafState = iota // in the chain
	leafAtSP                    // at SP (or in LR)
	leafAtSP1                   // in the word after
)

// leaf says in what state the function at pc is there.
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

// isReturn reports whether an address is one that a call in Go code returns to.
func isReturn(addr uint64) bool {
	if addr < 4096 {
		return false
	}
	f := runtime.FuncForPC(uintptr(addr) - 1)
	return f != nil && (afterCall(uintptr(addr)) || f.Name() == "runtime.goexit")
}
