package stream

import (
	"math/bits"
	"math/rand/v2"
	"slices"
)

// seams know when the threads of earlier files had their last samples, so that time across two files
// counts once. They remember the threads that were sampled last; those that are forgotten have ended
// long ago. If not, the weight in the metadata of the next file still is right.
type seams struct {
	table  []seam // a hash table; a seam without an interpreter is free
	used   int
	most   uint64 // the highest id so far
	seed   uint64
	labels []*Labels
}

// A seam is the end of a thread in the files so far.
type seam struct {
	id          uint64
	last        uint64 // time of the latest sample, µs
	interpreter uint32 // + 1
	labels      uint32 // number of its latest labels + 1; 0: none
}

const (
	// maxSeams is the number of threads that are remembered. They take 24 to 48 bytes each.
	maxSeams = 1 << 19

	// Labels are remembered of at most maxCarried threads, which had a sample in the last carryFor µs of a file. They are
	// needed only if the next file does not say what labels its goroutines have.
	carryFor   = 10_000_000
	maxCarried = 1 << 16
)

func newSeams() *seams { return &seams{table: make([]seam, 1<<10), seed: rand.Uint64()} }

// slot returns the place of a thread in the table, which is free if the thread has no seam.
func (s *seams) slot(id uint64, interpreter uint32) *seam {
	mask := uint64(len(s.table) - 1)
	hi, lo := bits.Mul64(id^s.seed, 0x9e3779b97f4a7c15)
	for at := (hi ^ lo) & mask; ; at = (at + 1) & mask {
		if e := &s.table[at]; e.interpreter == 0 || e.id == id && e.interpreter == interpreter+1 {
			return e
		}
	}
}

// find returns the seam of a thread, or nil.
func (s *seams) find(id uint64, interpreter uint32) *seam {
	if id > s.most { // most goroutines of a file are new, and have higher ids than earlier ones
		return nil
	}
	if e := s.slot(id, interpreter); e.interpreter != 0 {
		return e
	}
	return nil
}

// carried returns the labels of a thread after its last file.
func (s *seams) carried(e *seam) *Labels {
	if e.labels == 0 {
		return nil
	}
	return s.labels[e.labels-1]
}

// add remembers a thread, with labels if they are not nil.
func (s *seams) add(t *slot, labels *Labels) {
	s.most = max(s.most, t.id)
	e := s.slot(t.id, t.interpreter)
	if e.interpreter == 0 {
		if s.used++; 4*s.used > 3*len(s.table) {
			s.rebuild(2*len(s.table), 0)
			e = s.slot(t.id, t.interpreter)
		}
	}
	*e = seam{id: t.id, interpreter: t.interpreter + 1, last: t.last}
	if labels != nil && len(s.labels) < maxCarried {
		s.labels = append(s.labels, labels)
		e.labels = uint32(len(s.labels))
	}
}

// trim forgets threads if there are many, the ones first that were not sampled for the longest time.
func (s *seams) trim() {
	if len(s.labels) == maxCarried {
		s.rebuild(len(s.table), 0) // frees those of threads that were added again
	}
	if s.used <= maxSeams {
		return
	}
	last := make([]uint64, 0, s.used)
	for i := range s.table {
		if s.table[i].interpreter != 0 {
			last = append(last, s.table[i].last)
		}
	}
	slices.Sort(last)
	s.rebuild(2*maxSeams, last[len(last)-maxSeams/2])
}

// rebuild makes the table larger or smaller and keeps the threads sampled at a time or after it.
func (s *seams) rebuild(size int, from uint64) {
	old, labels := s.table, s.labels
	s.table, s.labels, s.used = make([]seam, size), nil, 0
	for _, e := range old {
		if e.interpreter == 0 || e.last < from || 4*s.used > 3*size {
			continue
		}
		s.used++
		if e.labels != 0 {
			s.labels = append(s.labels, labels[e.labels-1])
			e.labels = uint32(len(s.labels))
		}
		*s.slot(e.id, e.interpreter-1) = e
	}
}
