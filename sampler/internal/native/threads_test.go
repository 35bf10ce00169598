//go:build linux && (amd64 || arm64)

package native

import (
	"os"
	"testing"
	"time"
)

// TestRoom calls Room many times. No thread may be left.
func TestRoom(t *testing.T) {
	count := func() int {
		list, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before, begin := count(), time.Now()
	for range 200 {
		if err := Room(Threads); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%v each", time.Since(begin)/200)
	if after := count(); after > before+8 {
		t.Errorf("%d threads before, %d after", before, after)
	}
}
