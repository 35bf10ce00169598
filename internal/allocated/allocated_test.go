package allocated

import "testing"

var garbage []byte

func TestBy(t *testing.T) {
	if n := By(func() { garbage = make([]byte, 1<<20); garbage = nil }); n < 1<<20 || n > 2<<20 {
		t.Errorf("1 MB is %d bytes", n)
	}
}
