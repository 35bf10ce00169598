package profile

import (
	"slices"
	"sort"
	"time"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// FromTachyon adds up all samples of a file or another stream. It keeps one copy
// of each different stack and the stream's frame table; a file may be closed
// afterwards.
func FromTachyon(s reader.Stream) (*Profile, error) {
	m, err := s.Metadata()
	if err != nil {
		return nil, err
	}
	h := s.Header()
	b := NewBuilder()
	p := b.Profile
	p.Frames, p.Interval = s.Frames(), reader.Micros(h.Interval)
	labels := b.labelSpans(m.Goroutines)
	var threads []*thread
	var end uint64
	for s, err := range reader.Weighted(s) {
		if err != nil {
			return nil, err
		}
		if s.First {
			threads = append(threads, &thread{spans: labels[s.Thread]})
		}
		t := threads[s.Index]
		since := uint64(max(0, int64(s.Time-h.Start)))
		end = max(end, since)

		k := recordKey{
			goroutine: s.Thread, system: m.Session != nil && s.Interpreter == 1,
			state: state(s.Status, p.leaf(s.Stack)), stack: t.key.stack, labels: t.labels(since),
		}
		if s.First || !slices.Equal(s.Stack, b.list[k.stack]) {
			k.stack = b.stack(s.Stack)
		}
		if s.First || k != t.key {
			t.key, t.record = k, b.record(k)
		}
		b.addTo(t.record, &Record{Count: 1, Wall: s.Wall(), CPU: s.CPU()})
	}
	p.Start, p.Duration, p.Goroutines = time.UnixMicro(int64(h.Start)), reader.Micros(end), len(threads)
	if s := m.Session; s != nil {
		p.Metadata, p.Program = m, s.Program
		if !s.Start.IsZero() {
			p.Start = s.Start
		}
		if s.Duration > 0 {
			p.Duration = s.Duration
		}
	}
	return b.Finish(), nil
}

// leaf returns the innermost frame of a stack, nil if it is empty.
func (p *Profile) leaf(stack []uint32) *Frame {
	if len(stack) == 0 {
		return nil
	}
	return &p.Frames[stack[0]]
}

// A thread is the state of a thread while samples are added up.
type thread struct {
	spans []span // in order of from
	begun int    // spans[:begun] have begun

	key    recordKey // of the previous sample
	record int       // where that was added
}

// A span says from when on a goroutine has which labels.
type span struct {
	from   uint64 // µs since the file's start
	labels uint32 // in Builder.labels
}

// labels returns the labels at a time. Times must not fall from call to call.
func (t *thread) labels(at uint64) uint32 {
	for t.begun < len(t.spans) && t.spans[t.begun].from <= at {
		t.begun++
	}
	if t.begun == 0 {
		return 0
	}
	return t.spans[t.begun-1].labels
}

// labelSpans returns each goroutine's spans in order.
func (b *Builder) labelSpans(list []tachyon.Goroutine) map[uint64][]span {
	out := map[uint64][]span{}
	for _, g := range list {
		for _, l := range g.Labels {
			out[g.ID] = append(out[g.ID], span{l.From, b.labelSet(l.Labels)})
		}
	}
	for _, spans := range out {
		sort.SliceStable(spans, func(i, j int) bool { return spans[i].from < spans[j].from })
	}
	return out
}
