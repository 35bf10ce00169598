package stream

import (
	"errors"
	"math"
	"sort"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// facts are what a file says about its goroutines, apart from samples. Each decoding of a file
// reads them first, and looks each goroutine up when its first sample comes. They take some
// 25 bytes for each, or 120 if few ids are successive.
type facts struct {
	list  []fact
	index reader.Numbers[uint64] // indices into list + 1

	spans    []span
	labels   labelTable
	creators []Creator // of this file; 0 is the unknown one
}

// A fact is what a file says about a goroutine.
type fact struct {
	weight  uint64 // of its first sample, µs; 0: the file does not say it, or the sample was read and the weight is used up
	creator uint32 // index into facts.creators
	labels  int32  // number of the first of its spans + 1; 0: the file says nothing, noLabels: it has none
}

const noLabels = -1

// A span says from when on a goroutine has which labels.
type span struct {
	from   uint64 // µs since the file's start
	labels uint32 // number + 1; 0: none
	next   int32  // number of the next span of the goroutine + 1
}

// newFacts reads the facts about a stream's goroutines: the weights, and what the options ask for.
func newFacts(p *Part, o *Options) (*facts, error) {
	f := &facts{creators: []Creator{{}}}
	s, expect := p.Stream, mostSlots(p)
	most := int(min(400_000+min(s.Size(), math.MaxInt32), math.MaxInt32))
	f.list = make([]fact, 0, expect)
	if o.Labels || o.Creators {
		return f, f.readAll(s, o, most)
	}
	weights, err := s.FirstWeights()
	for _, w := range weights {
		f.of(w.Goroutine).weight = w.Weight
	}
	return f, err
}

// readAll reads all that the file says of goroutines.
func (f *facts) readAll(s reader.Stream, o *Options, most int) error {
	l := &labelling{f: f, last: map[int32]int32{}, unordered: map[int32]bool{}}
	c := newCreatorNumbers()
	for g, err := range s.Goroutines() {
		if err != nil {
			return err
		}
		x := f.of(g.ID)
		if len(f.list) > most {
			return errors.New("too many goroutines for the size of the file")
		}
		if g.FirstWeight > 0 {
			x.weight = g.FirstWeight
		}
		if o.Creators && (g.CreatedBy != "" || g.CreatedAt != "") {
			x.creator = c.of(Creator{g.CreatedBy, g.CreatedAt})
		}
		if o.Labels {
			l.add(x, g.Labels)
		}
	}
	l.finish()
	f.creators = c.table.List
	return nil
}

// find returns the fact about a goroutine, nil if there is none.
func (f *facts) find(id uint64) *fact {
	if len(f.list) > 0 {
		if n := *f.index.Of(id>>4, id); n > 0 {
			return &f.list[n-1]
		}
	}
	return nil
}

// of returns the fact about a goroutine. It adds one if there is none. It is valid until the next
// one is added.
func (f *facts) of(id uint64) *fact {
	n := f.index.Of(id>>4, id)
	if *n == 0 {
		f.list = append(f.list, fact{})
		*n = uint32(len(f.list))
	}
	return &f.list[*n-1]
}

// A labelling collects the labels of goroutines.
type labelling struct {
	f         *facts
	last      map[int32]int32 // of chains of several spans, by the number of the first one: the number of the last one
	unordered map[int32]bool  // chains whose spans are not in order of time, by the number of the first one
}

// add adds the labels in a part of what is known about a goroutine.
func (b *labelling) add(x *fact, labels []tachyon.LabelSpan) {
	f := b.f
	if x.labels == 0 {
		x.labels = noLabels
	}
	for _, l := range labels {
		n := int32(len(f.spans) + 1)
		f.spans = append(f.spans, span{from: l.From, labels: f.labels.add(l.Labels)})
		if x.labels == noLabels {
			x.labels = n
			continue
		}
		last := x.labels
		if further, ok := b.last[x.labels]; ok {
			last = further
		}
		f.spans[last-1].next = n
		b.last[x.labels] = n
		if f.spans[last-1].from > l.From {
			b.unordered[x.labels] = true
		}
	}
}

func (b *labelling) finish() {
	b.f.labels.number, b.f.labels.nameOf = nil, nil
	for first := range b.unordered {
		b.f.order(first)
	}
}

// order puts the spans of a chain in order of time, given the number of the first one.
func (f *facts) order(first int32) {
	var at []int32
	var list []span
	for n := first; n != 0; n = f.spans[n-1].next {
		at, list = append(at, n-1), append(list, f.spans[n-1])
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].from < list[j].from })
	for i, n := range at {
		f.spans[n].from, f.spans[n].labels = list[i].from, list[i].labels
	}
}
