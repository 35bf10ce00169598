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
		list := testenv.Must(os.ReadDir("/proc/self/task"))
		return len(list)
	}
	before := count()
	for range 30 {
		testenv.OK(t, Room(Threads))
	}
	after := 0
	testenv.Await(func() bool { after = count(); return after <= before+8 })
	if after > before+8 {
		t.Errorf("%d threads before, %d after", before, after)
	}
}
