package prefetch

import "testing"

// What is asked for is as it was, and nil is no fault.
func TestUint32(t *testing.T) {
	x := []uint32{1, 2, 3}
	for i := range x {
		Uint32(&x[i])
	}
	Uint32(nil)
	if x[0] != 1 || x[1] != 2 || x[2] != 3 {
		t.Error(x)
	}
}
