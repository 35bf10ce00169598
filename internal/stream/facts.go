package stream

import (
	"iter"
	"maps"
	"slices"
	"sort"
	"strconv"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// facts are what a file says about its goroutines.
type facts struct {
	weights map[uint64]uint64 // of first samples, µs, by goroutine
	chains  map[uint64]chain  // of all goroutines; nil without labels
	spans   []span
}

// A chain is where a goroutine's spans are in facts.spans, plus 1; 0: it has none.
type chain struct{ first, last int32 }

// A span says from when on a goroutine has which labels.
type span struct {
	from   uint64 // µs since the file's start
	labels *Labels
	next   int32 // number of the next span of the goroutine + 1
}

// newFacts reads the facts about a stream's goroutines.
func newFacts(s reader.Stream, labels bool) (*facts, error) {
	f := &facts{}
	var err error
	if r, ok := s.(interface {
		FirstWeights() (map[uint64]uint64, error)
	}); ok {
		f.weights, err = r.FirstWeights()
	} else {
		var m *tachyon.Metadata
		if m, err = s.Metadata(); err == nil {
			f.weights = m.FirstWeights()
		}
	}
	if err != nil || !labels {
		return f, err
	}
	f.chains = map[uint64]chain{}
	sets := map[string]*Labels{}
	unordered := map[uint64]bool{}
	for g, err := range goroutines(s) {
		if err != nil {
			return nil, err
		}
		c := f.chains[g.ID]
		for _, l := range g.Labels {
			n := int32(len(f.spans) + 1)
			f.spans = append(f.spans, span{from: l.From, labels: newLabels(sets, l.Labels)})
			if c.first == 0 {
				c.first = n
			} else {
				f.spans[c.last-1].next = n
				if f.spans[c.last-1].from > l.From {
					unordered[g.ID] = true
				}
			}
			c.last = n
		}
		f.chains[g.ID] = c
	}
	for id := range unordered {
		f.order(f.chains[id])
	}
	return f, nil
}

// goroutines returns a stream's metadata of goroutines, perhaps in parts.
func goroutines(s reader.Stream) iter.Seq2[*tachyon.Goroutine, error] {
	if r, ok := s.(interface {
		Goroutines() iter.Seq2[*tachyon.Goroutine, error]
	}); ok {
		return r.Goroutines()
	}
	return func(yield func(*tachyon.Goroutine, error) bool) {
		m, err := s.Metadata()
		if err != nil {
			yield(nil, err)
			return
		}
		for i := range m.Goroutines {
			if !yield(&m.Goroutines[i], nil) {
				return
			}
		}
	}
}

// order puts the spans of a chain in order of time.
func (f *facts) order(c chain) {
	var at []int32
	var list []span
	for n := c.first; n != 0; n = f.spans[n-1].next {
		at, list = append(at, n-1), append(list, f.spans[n-1])
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].from < list[j].from })
	for i, n := range at {
		f.spans[n].from, f.spans[n].labels = list[i].from, list[i].labels
	}
}

// newLabels returns labels, one value for equal ones. It returns nil if there are none.
func newLabels(sets map[string]*Labels, set map[string]string) *Labels {
	if len(set) == 0 {
		return nil
	}
	var b []byte
	for _, k := range slices.Sorted(maps.Keys(set)) {
		b = strconv.AppendQuote(strconv.AppendQuote(b, k), set[k])
	}
	l := sets[string(b)]
	if l == nil {
		l = &Labels{Set: set, Key: string(b)}
		sets[l.Key] = l
	}
	return l
}
