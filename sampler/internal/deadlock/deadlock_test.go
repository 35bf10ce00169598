package deadlock

import (
	"testing"
	"time"
)

// TestWatch makes a look every 200 ms.
func TestWatch(t *testing.T) {
	var w Watch
	now := time.Now()
	look := func(stuck bool, mark uint64) bool {
		now = now.Add(200 * time.Millisecond)
		return w.Look(now, stuck, mark)
	}
	for range 10 {
		if look(false, 0) {
			t.Error("Look = true although a goroutine is not stuck")
		}
	}
	for mark := range uint64(10) {
		if look(true, mark) {
			t.Error("Look = true although a goroutine has run since the last look")
		}
	}
	for i := range 10 {
		if look(true, 9) != (i == 4) {
			t.Errorf("Look = %v at look %d with the same mark, want true only at look 4", i != 4, i)
		}
		if i == 4 {
			break
		}
	}
	if w.Conclude(Dead, true, 8) || w.Conclude(Dead, false, 9) || w.Conclude(Unclear, true, 9) || w.Conclude(Alive, true, 9) {
		t.Error("Conclude = true without all its conditions")
	}
	now = time.Now()
	if look(true, 9) {
		t.Error("Look = true right after Conclude")
	}
	now = now.Add(5 * time.Second)
	if !look(true, 9) {
		t.Error("Look = false 5 s after Conclude")
	}
	if !w.Conclude(Dead, true, 9) {
		t.Error("Conclude = false for a deadlock")
	}
}
