package stream

import (
	"testing"

	"pgregory.net/rapid"
)

// Of many threads, the ones are remembered that were sampled last.
func TestSeamsTrim(t *testing.T) {
	s := newSeams()
	labels := &Labels{Key: "k"}
	const n = maxSeams + 1000
	for i := range uint64(n) {
		var its *Labels
		if i%100 == 0 {
			its = labels
		}
		s.add(&slot{id: i * 7, interpreter: uint32(i % 2), last: i}, its)
	}
	if s.trim(); s.used < maxSeams/2 || s.used > maxSeams || len(s.labels) > s.used {
		t.Fatalf("%d threads and %d labels are left", s.used, len(s.labels))
	}
	for i := uint64(0); i < n; i += 3 {
		e := s.find(i*7, uint32(i%2))
		if s.find(i*7, uint32(i+1)%2) != nil {
			t.Fatalf("thread %d of the other interpreter is known", i)
		}
		if recent := i >= n-maxSeams/2; (e != nil) != recent {
			t.Fatalf("thread %d is known: %v, want %v", i, e != nil, recent)
		}
		if e != nil && (e.last != i || (s.carried(e) == labels) != (i%100 == 0)) {
			t.Fatalf("thread %d has %+v", i, e)
		}
	}
}

// Labels of threads that are added again and again do not add up.
func TestSeamsLabels(t *testing.T) {
	s := newSeams()
	for i := range uint64(4 * maxCarried) {
		s.add(&slot{id: i % 10, last: i}, &Labels{})
		if i%1000 == 0 {
			s.trim()
		}
	}
	if s.trim(); len(s.labels) > maxCarried || s.used != 10 {
		t.Errorf("%d labels of %d threads", len(s.labels), s.used)
	}
}

func TestIDSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var set idSet
		want := map[uint64]bool{}
		id := rapid.OneOf(rapid.Uint64Range(0, 2000), rapid.Uint64())
		for range rapid.IntRange(0, 300).Draw(t, "adds") {
			n := id.Draw(t, "id")
			if set.has(n) != want[n] || set.add(n) == want[n] || !set.has(n) {
				t.Fatalf("id %d was in the set: %v", n, want[n])
			}
			want[n] = true
		}
	})
}

// Goroutines of different processes have different ids, which stay what they are. Large ids are those of other profilers.
func TestNames(t *testing.T) {
	a, b, c := Process{PID: 1}, Process{PID: 2}, Process{PID: 3}
	n := NewNames([]*Part{{Process: a}, {Process: b}, {Process: c}})
	for range 2 {
		for _, w := range []struct {
			p        Process
			id, want uint64
		}{
			{b, 5, 5 + apart}, {a, 5, 5}, {c, 5, 5 + 2*apart}, {a, 6, 6}, {c, 7, 7 + 2*apart},
			{b, apart, apart}, {a, apart, 2 * apart}, {c, apart, 3 * apart}, {c, apart + 1, apart + 1},
		} {
			if got := n.ID(w.p, w.id); got != w.want {
				t.Errorf("goroutine %d of process %d is %d, want %d", w.id, w.p.PID, got, w.want)
			}
		}
	}
}
