//go:build linux && (amd64 || arm64)

package goruntime

// LeafState says where the return address of an interrupted function is if the frame pointer
// chain misses it: memmove and similar functions have no frame, and other functions have none
// at their first and last instructions.
type LeafState uint8

const (
	LeafFramed LeafState = iota // in the chain
	LeafAtSP                    // at SP (or in LR)
	LeafAtSP1                   // in the word after SP (or at SP)
)
