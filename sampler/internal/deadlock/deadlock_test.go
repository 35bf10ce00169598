package deadlock

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWatch makes a look every 200 ms.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Watch
		looks := func(name string, n int, stuck bool, mark func(i int) uint64, want int) {
			t.Helper()
			for i := range n {
				time.Sleep(200 * time.Millisecond)
				if got := w.Look(time.Now(), stuck, mark(i)); got != (i == want) {
					t.Errorf("%s: Look = %v at look %d", name, got, i)
				}
			}
		}
		same := func(int) uint64 { return 9 }
		looks("a goroutine is not stuck", 10, false, same, -1)
		looks("a goroutine has run since the last look", 10, true, func(i int) uint64 { return uint64(i) }, -1)
		looks("with the same mark", 5, true, same, 4)
		if w.Conclude(Dead, true, 8) || w.Conclude(Dead, false, 9) || w.Conclude(Unclear, true, 9) {
			t.Error("Conclude = true without all its conditions")
		}
		looks("a second after Conclude", 5, true, same, 4)
		for wait := 2 * time.Second; wait <= 2*maxPatience; wait *= 2 {
			if w.Conclude(Alive, true, 9) {
				t.Error("Conclude = true although a timer is set")
			}
			wait := min(wait, maxPatience)
			if time.Sleep(wait - 1); w.Look(time.Now(), true, 9) {
				t.Errorf("Look = true before %v have passed", wait)
			}
			if time.Sleep(time.Nanosecond); !w.Look(time.Now(), true, 9) {
				t.Errorf("Look = false after %v", wait)
			}
		}
		if !w.Conclude(Dead, true, 9) {
			t.Error("Conclude = false for a deadlock")
		}
	})
}
