//go:build linux && (amd64 || arm64)

package native

import (
	"os"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
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
	before := count()
	for range 30 {
		if err := Room(Threads); err != nil {
			t.Fatal(err)
		}
	}
	after := 0
	testenv.Await(func() bool { after = count(); return after <= before+8 })
	if after > before+8 {
		t.Errorf("%d threads before, %d after", before, after)
	}
}
