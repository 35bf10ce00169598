package prefetch

import (
	"slices"
	"testing"
)

// Slice accepts slices of any length and address and does not change them.
func TestSlice(t *testing.T) {
	x := make([]uint32, 100)
	for i := range x {
		x[i] = uint32(i)
	}
	want := slices.Clone(x)
	for from := range x {
		for to := from; to <= len(x); to++ {
			Slice(x[from:to])
		}
	}
	Slice[byte](nil)
	Value(&x[50])
	Value[[4096]byte](nil)
	if !slices.Equal(x, want) {
		t.Error(x)
	}
}
