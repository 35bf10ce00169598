package stream

import (
	"cmp"
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
	weights []reader.FirstWeight // by goroutine; 0 when it was used
	at      int                  // index into weights after the one that was used last
	told    idSet                // goroutines of which the file says what labels they have; empty without labels
	chains  map[uint64]chain     // of those that have labels
	spans   []span
}

// A chain is where a goroutine's spans are in facts.spans, plus 1.
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
	var l *labelling
	var each func(*tachyon.Goroutine) error
	if labels {
		f.chains = map[uint64]chain{}
		l = &labelling{f: f, sets: map[string]*Labels{}, unordered: map[uint64]bool{}}
		each = l.add
	}
	err := f.read(s, each)
	if err == nil && labels {
		l.finish()
	}
	return f, err
}

// read reads the weights, and calls each with the metadata of goroutines if it is not nil.
func (f *facts) read(s reader.Stream, each func(*tachyon.Goroutine) error) (err error) {
	if r, ok := s.(interface {
		FirstWeights(func(*tachyon.Goroutine) error) ([]reader.FirstWeight, error)
	}); ok {
		f.weights, err = r.FirstWeights(each)
		return err
	}
	m, err := s.Metadata()
	if err != nil {
		return err
	}
	for id, weight := range m.FirstWeights() {
		f.weights = append(f.weights, reader.FirstWeight{Goroutine: id, Weight: weight})
	}
	slices.SortFunc(f.weights, func(a, b reader.FirstWeight) int { return cmp.Compare(a.Goroutine, b.Goroutine) })
	for i := range m.Goroutines {
		if each == nil {
			break
		}
		if err := each(&m.Goroutines[i]); err != nil {
			return err
		}
	}
	return nil
}

// A labelling collects the labels of goroutines.
type labelling struct {
	f         *facts
	sets      map[string]*Labels
	unordered map[uint64]bool // goroutines whose spans are not in order of time
}

// add adds what is known about a goroutine. It returns nil.
func (b *labelling) add(g *tachyon.Goroutine) error {
	f := b.f
	f.told.add(g.ID)
	if len(g.Labels) == 0 {
		return nil
	}
	c := f.chains[g.ID]
	for _, l := range g.Labels {
		n := int32(len(f.spans) + 1)
		f.spans = append(f.spans, span{from: l.From, labels: newLabels(b.sets, l.Labels)})
		if c.first == 0 {
			c.first = n
		} else {
			f.spans[c.last-1].next = n
			if f.spans[c.last-1].from > l.From {
				b.unordered[g.ID] = true
			}
		}
		c.last = n
	}
	f.chains[g.ID] = c
	return nil
}

func (b *labelling) finish() {
	for id := range b.unordered {
		b.f.order(b.f.chains[id])
	}
}

// weight returns the weight of a goroutine's first sample once.
func (f *facts) weight(id uint64) (weight uint64, ok bool) {
	// Goroutines come mostly in the order of their ids.
	for i := f.at; i < min(f.at+4, len(f.weights)); i++ {
		if f.weights[i].Goroutine == id {
			return f.use(i)
		}
	}
	i, ok := slices.BinarySearchFunc(f.weights, id, func(w reader.FirstWeight, id uint64) int { return cmp.Compare(w.Goroutine, id) })
	if !ok {
		return 0, false
	}
	return f.use(i)
}

func (f *facts) use(i int) (weight uint64, ok bool) {
	weight = f.weights[i].Weight
	f.weights[i].Weight, f.at = 0, i+1 // a thread of another interpreter may have the same id
	return weight, weight > 0
}

// Goroutines returns a stream's metadata of goroutines, perhaps in parts.
func Goroutines(s reader.Stream) iter.Seq2[*tachyon.Goroutine, error] {
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
