package stream

import "slices"

// seams know when the threads of earlier files had their last samples, so that time across two
// files counts once. They remember the threads that were sampled last; those that are forgotten
// have ended long ago. If not, the weight in the metadata of the next file still is right.
type seams struct {
	of      map[threadKey]seam
	most    uint64 // the highest id so far
	carried int    // number of seams with labels
}

// A threadKey tells the threads of all files apart.
type threadKey struct {
	id          uint64
	interpreter uint32
}

// A seam is the end of a thread in the files so far.
type seam struct {
	last   uint64  // time of the latest sample, µs
	labels *Labels // the latest; nil: none
}

const (
	// maxSeams is the number of threads that are remembered. They take some 50 bytes each.
	maxSeams = 1 << 19

	// Labels are remembered of at most maxCarried threads, which had a sample in the last carryFor
	// µs of a file. They are needed only if the next file does not say what labels its goroutines
	// have.
	carryFor   = 10_000_000
	maxCarried = 1 << 16
)

func newSeams() *seams { return &seams{of: map[threadKey]seam{}} }

// find returns the seam of a thread. ok is false if there is none.
func (s *seams) find(id uint64, interpreter uint32) (e seam, ok bool) {
	if id <= s.most { // most goroutines of a file are new, and have higher ids than earlier ones
		e, ok = s.of[threadKey{id, interpreter}]
	}
	return e, ok
}

// add remembers a thread, with labels if they are not nil.
func (s *seams) add(t *slot, labels *Labels) {
	s.most = max(s.most, t.id)
	key := threadKey{t.id, t.interpreter}
	if s.of[key].labels != nil {
		s.carried--
	}
	if s.carried == maxCarried {
		labels = nil
	}
	if labels != nil {
		s.carried++
	}
	s.of[key] = seam{t.last, labels}
}

// trim forgets threads if there are many, the ones first that were not sampled for the longest
// time.
func (s *seams) trim() {
	if len(s.of) <= maxSeams {
		return
	}
	last := make([]uint64, 0, len(s.of))
	for _, e := range s.of {
		last = append(last, e.last)
	}
	slices.Sort(last)
	old, from := s.of, last[len(last)-maxSeams/2]
	s.of, s.carried = make(map[threadKey]seam, maxSeams), 0
	for key, e := range old {
		if e.last < from || len(s.of) == maxSeams {
			continue
		}
		if s.of[key] = e; e.labels != nil {
			s.carried++
		}
	}
}
