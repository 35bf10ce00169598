package deadlock

import (
	"testing"
	"time"
)

// TestWatch follows looks a fifth of a second apart.
func TestWatch(t *testing.T) {
	var w Watch
	now := time.Now()
	look := func(stuck bool, mark uint64) bool {
		now = now.Add(200 * time.Millisecond)
		return w.Look(now, stuck, mark)
	}
	for range 10 {
		if look(false, 0) {
			t.Error("some goroutine is not stuck")
		}
	}
	for mark := range uint64(10) {
		if look(true, mark) {
			t.Error("a goroutine ran since the look before")
		}
	}
	for i := range 10 {
		if look(true, 9) != (i == 4) {
			t.Errorf("look %d of those that showed the same", i)
		}
		if i == 4 {
			break
		}
	}
	if w.Conclude(Dead, true, 8) || w.Conclude(Dead, false, 9) || w.Conclude(Unclear, true, 9) || w.Conclude(Alive, true, 9) {
		t.Error("a deadlock without a reason")
	}
	now = time.Now()
	if look(true, 9) {
		t.Error("the same again at once")
	}
	now = now.Add(5 * time.Second)
	if !look(true, 9) {
		t.Error("never again")
	}
	if !w.Conclude(Dead, true, 9) {
		t.Error("no deadlock")
	}
}
