package reader

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestThreadsGrow finds many threads in random order. The file's size is 0, so no memory
// is reserved for them.
func TestThreadsGrow(t *testing.T) {
	const n = 5000
	ts := newThreads(0, math.MaxUint32)
	for range 5 * n {
		id := rand.Uint64N(n)
		th, err := ts.find(id<<32, uint32(id&3), 7)
		if err != nil {
			t.Fatal(err)
		}
		if th.time == 7 {
			th.time = 100 + id
		} else if th.time != 100+id {
			t.Fatalf("thread %d has the state of %d", id, th.time-100)
		}
	}
	seen := map[uint64]bool{}
	for _, th := range ts.list {
		if seen[th.id] {
			t.Fatalf("thread %d is in the list twice", th.id>>32)
		}
		seen[th.id] = true
	}
}
