package formats

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// A joinedGoroutine is what Goroutines remembers of a goroutine. There may be millions.
type joinedGoroutine struct {
	file    int32 // number of the latest file that says something of it
	labeled bool  // it has labels in what was yielded last
}

// processKeys are what a joined goroutine of several processes has as labels; see tachyon.Session.Label.
var processKeys = []string{"host", "pid", "process", "service", "version"}

// processLabels returns labels that say which process a goroutine of a file is of, nil if all files are of one or nothing is known. The
// joined session cannot say it.
func (j *joined) processLabels(f *joinFile) map[string]string {
	s := f.Metadata.Session
	if !j.several || s == nil {
		return nil
	}
	set := map[string]string{}
	for _, k := range processKeys {
		if v, ok := s.Label(k); ok {
			set[k] = v
		}
	}
	if len(set) == 0 {
		return nil
	}
	return set
}

// withLabels returns the labels of a goroutine with those of its process.
func withLabels(process, own map[string]string) map[string]string {
	if len(process) == 0 {
		return own
	}
	set := maps.Clone(process)
	maps.Copy(set, own)
	return set
}

// Goroutines yields what the files say of the goroutines, file by file. A goroutine may come in several parts; see
// [reader.Reader.Goroutines]. If the files are of several processes, the labels say which.
func (j *joined) Goroutines() iter.Seq2[*tachyon.Goroutine, error] {
	return func(yield func(*tachyon.Goroutine, error) bool) {
		weights, _ := j.FirstWeights()
		known := map[uint64]joinedGoroutine{}
		for i, f := range j.files {
			at := f.Header.Start + f.Shift - j.header.Start
			process := j.processLabels(f)
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
				if (k.labeled && int(k.file) != i || !again && process != nil) && (len(g.Labels) == 0 || g.Labels[0].From > 0) {
					// The labels of the file before do not go on in this one.
					part.Labels = append(part.Labels, tachyon.LabelSpan{From: at, Labels: withLabels(process, map[string]string{})})
					k.labeled = false
				}
				for _, l := range g.Labels {
					part.Labels = append(part.Labels, tachyon.LabelSpan{From: at + l.From, Labels: withLabels(process, l.Labels)})
					k.labeled = len(l.Labels) > 0
				}
				k.file = int32(i)
				known[id] = k
				if !yield(&part, nil) {
					return
				}
			}
		}
		for i, f := range j.files { // the files may say nothing of some goroutines
			process := j.processLabels(f)
			if process == nil {
				continue
			}
			for _, t := range f.ended {
				if _, ok := known[t.id]; ok || t.interpreter == tachyon.Process {
					continue
				}
				known[t.id] = joinedGoroutine{file: int32(i)}
				g := tachyon.Goroutine{ID: t.id, Labels: []tachyon.LabelSpan{{Labels: process}}}
				g.FirstWeight, _ = reader.TakeWeight(weights, t.id)
				if !yield(&g, nil) {
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
