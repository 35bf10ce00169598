package testenv

import "testing"

var garbage []byte

func TestAllocated(t *testing.T) {
	if n := Allocated(func() { garbage = make([]byte, 1<<20); garbage = nil }); n < 1<<20 || n > 2<<20 {
		t.Errorf("Allocated = %d for a slice of 1 MB", n)
	}
}
