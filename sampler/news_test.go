package sampler_test

import (
	"cmp"
	"slices"
	"sync"

	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

// news keeps the records that a sink gets.
type news struct {
	mu       sync.Mutex
	parts    []tachyon.Goroutine
	progress []tachyon.Progress
}

func (n *news) WriteRecords(r *tachyon.Records) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.parts = append(n.parts, r.Goroutines...)
	if r.Progress != nil {
		n.progress = append(n.progress, *r.Progress)
	}
	return nil
}

// goroutines returns all goroutines of a session of one part, by ascending id, as readers do.
func (n *news) goroutines(s *sampler.Sampler) (list []tachyon.Goroutine) {
	index := map[uint64]int{}
	for _, g := range append(slices.Clone(n.parts), s.Part().Goroutines...) {
		if i, ok := index[g.ID]; ok {
			list[i].Add(&g)
			continue
		}
		index[g.ID] = len(list)
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b tachyon.Goroutine) int { return cmp.Compare(a.ID, b.ID) })
	return list
}
