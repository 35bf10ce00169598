package formats

import (
	"cmp"
	"iter"
	"slices"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// A joinedGoroutine is what Goroutines remembers of a goroutine. There may be millions.
type joinedGoroutine struct {
	file    int32 // number of the latest file that says something of it
	labeled bool  // it has labels in what was yielded last
}

// Goroutines yields what the files say of the goroutines, file by file. A goroutine may come in several parts; see
// [reader.Reader.Goroutines].
func (j *joined) Goroutines() iter.Seq2[*tachyon.Goroutine, error] {
	return func(yield func(*tachyon.Goroutine, error) bool) {
		weights, _ := j.FirstWeights()
		known := map[uint64]joinedGoroutine{}
		for i, f := range j.files {
			at := f.Header.Start + f.Shift - j.header.Start
			for g, err := range reader.Goroutines(f.s) {
				if err != nil {
					yield(nil, named(f.in, err))
					return
				}
				id := j.names.ID(f.Process, g.ID)
				k, again := known[id]
				part := tachyon.Goroutine{ID: id, Last: at + g.Last}
				if !again {
					part.CreatedBy, part.CreatedAt, part.First = g.CreatedBy, g.CreatedAt, at+g.First
					if g.Parent != 0 {
						part.Parent = j.names.ID(f.Process, g.Parent)
					}
					part.FirstWeight, _ = reader.TakeWeight(weights, id)
				}
				if k.labeled && int(k.file) != i && (len(g.Labels) == 0 || g.Labels[0].From > 0) {
					// The labels of the file before do not go on in this one.
					part.Labels = append(part.Labels, tachyon.LabelSpan{From: at, Labels: map[string]string{}})
				}
				for _, l := range g.Labels {
					part.Labels = append(part.Labels, tachyon.LabelSpan{From: at + l.From, Labels: l.Labels})
				}
				if n := len(part.Labels); n > 0 {
					k.labeled = len(part.Labels[n-1].Labels) > 0
				}
				k.file = int32(i)
				known[id] = k
				if !yield(&part, nil) {
					return
				}
			}
		}
		for _, w := range weights { // of goroutines of which the files say nothing
			if w.Weight > 0 && !yield(&tachyon.Goroutine{ID: w.Goroutine, FirstWeight: w.Weight}, nil) {
				return
			}
		}
	}
}

// FirstWeights returns the weights of goroutines' first samples, by ascending id.
func (j *joined) FirstWeights() ([]reader.FirstWeight, error) { return slices.Clone(j.weights), nil }

// all returns all metadata. There may be much.
func (j *joined) all() (*tachyon.Metadata, error) {
	m := j.overview
	known := map[uint64]int{} // indices
	for g, err := range j.Goroutines() {
		if err != nil {
			return nil, err
		}
		if i, again := known[g.ID]; again {
			m.Goroutines[i].Add(g)
			continue
		}
		known[g.ID] = len(m.Goroutines)
		m.Goroutines = append(m.Goroutines, *g)
	}
	slices.SortFunc(m.Goroutines, func(a, b tachyon.Goroutine) int { return cmp.Compare(a.ID, b.ID) })
	return &m, nil
}
