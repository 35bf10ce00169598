package deadlock

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/testenv"
)

// TestWatch makes a look every 200 ms.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Watch
		looks := func(name string, n int, stuck bool, mark func(i int) uint64, want int) {
			t.Helper()
			for i := range n {
				time.Sleep(200 * time.Millisecond)
				testenv.Same(t, fmt.Sprint(name, ", look ", i), w.Look(time.Now(), stuck, mark(i)), i == want)
			}
		}
		same := func(int) uint64 { return 9 }
		looks("a goroutine is not stuck", 10, false, same, -1)
		looks("a goroutine has run since the last look", 10, true, func(i int) uint64 { return uint64(i) }, -1)
		looks("with the same mark", 5, true, same, 4)
		testenv.Prints(t, "Conclude without all its conditions", "false false false", w.Conclude(Dead, true, 8), w.Conclude(Dead, false, 9), w.Conclude(Unclear, true, 9))
		looks("a second after Conclude", 5, true, same, 4)
		for wait := 2 * time.Second; wait <= 2*maxPatience; wait *= 2 {
			testenv.Same(t, "Conclude although a timer is set", w.Conclude(Alive, true, 9), false)
			wait := min(wait, maxPatience)
			time.Sleep(wait - 1)
			testenv.Same(t, wait-1, w.Look(time.Now(), true, 9), false)
			time.Sleep(time.Nanosecond)
			testenv.Same(t, wait, w.Look(time.Now(), true, 9), true)
		}
		testenv.Same(t, "Conclude for a deadlock", w.Conclude(Dead, true, 9), true)
	})
}

// others are the wait reasons that do not make a deadlock: something besides another goroutine of
// the program ends the wait, or it is a wait of the runtime's own goroutines.
var others = []string{
	"", // no reason
	"IO wait", "sleep", "panicwait", "preempted", "debug call",
	"synctest.Run", "synctest.Wait", // there are no sessions in a bubble
	"chan receive (durable)", "chan send (durable)", "select (durable)", "sync.WaitGroup.Wait (durable)",
	"GC assist marking", "GC assist wait", "GC mark termination", "GC scavenge wait", "GC sweep wait",
	"GC weak to strong wait", "GC worker (active)", "GC worker (idle)", "GOMAXPROCS updater (idle)",
	"dumping heap", "flushing proc caches", "force gc (idle)", "garbage collection", "garbage collection scan",
	"page trace flush", "stopping the world", "wait for GC cycle",
	"trace goroutine status", "trace proc status", "trace reader (blocked)",
}

// TestReasons judges every wait reason of every Go version in the native source's table. A new
// reason must be put either into stuck or into others.
func TestReasons(t *testing.T) {
	for version, layout := range goruntime.Layouts {
		for _, reason := range layout.Reasons {
			testenv.Same(t, "the reason "+reason+" is not among the others", Stuck(reason), !slices.Contains(others, reason))
		}
		for reason := range stuck {
			testenv.Same(t, version+" has the reason "+reason, slices.Contains(layout.Reasons, reason), true)
		}
	}
}
