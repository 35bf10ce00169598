package writer

import "testing"

// The thread that is prefetched is the one that comes lead steps later, also if other
// threads come in between or are dropped.
func TestFetchAhead(t *testing.T) {
	const n = 2 * manyPages * threadPage
	var s threadSet
	s.init(0)
	round := func(skip int) {
		t.Helper()
		for id := range n {
			if skip > 0 && id%skip == 0 {
				continue
			}
			if th := s.get(uint64(id), 0); th.id != uint64(id) {
				t.Fatalf("thread %d is %d", id, th.id)
			}
			a := s.last
			for range s.lead {
				a = a.next
			}
			if a != s.ahead || s.lead > maxLead {
				t.Fatalf("thread %d: not %d steps ahead", id, s.lead)
			}
		}
	}
	round(0)
	if s.lead != 0 {
		t.Errorf("%d steps ahead of threads seen once", s.lead)
	}
	round(0)
	if s.lead != maxLead {
		t.Errorf("%d steps ahead of threads seen twice", s.lead)
	}
	round(7)
	for id := 0; id < n; id += 100 {
		s.drop(s.find(uint64(id), 0))
	}
	round(7)
	round(0)
}
