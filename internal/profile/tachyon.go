package profile

import (
	"slices"
	"sort"
	"time"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// FromTachyon adds up all samples of a file or another stream, and the time without
// samples. It keeps one copy of each different stack and the stream's frame table; a
// file may be closed afterwards.
func FromTachyon(s reader.Stream) (*Profile, error) {
	s = reader.WithoutObjects(s)
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
		process := m.Session != nil && s.Interpreter == tachyon.Process
		if s.First {
			threads = append(threads, &thread{spans: labels[s.Thread]})
			if !process {
				p.Goroutines++
			}
		}
		t := threads[s.Index]
		since := uint64(max(0, int64(s.Time-h.Start)))
		end = max(end, since)

		k := recordKey{
			goroutine: s.Thread, system: m.Session != nil && s.Interpreter != tachyon.User,
			state: p.state(s.Status, s.Stack), stack: t.key.stack, labels: t.labels(since),
		}
		if process { // it has threads only because a core's worth of time has no room in one
			k.goroutine = 0
		}
		if s.First || !slices.Equal(s.Stack, b.list[k.stack]) {
			k.stack = b.stack(s.Stack)
		}
		if s.First || k != t.key {
			t.key, t.record = k, b.record(k)
		}
		b.addTo(t.record, &Record{Count: 1, Wall: s.Wall(), CPU: s.CPU()})
	}
	p.Start, p.Duration = time.UnixMicro(int64(h.Start)), reader.Micros(end)
	if s := m.Session; s != nil {
		p.Metadata, p.Program = m, s.Program
		if !s.Start.IsZero() {
			p.Start = s.Start
		}
		if s.Duration > 0 {
			p.Duration = s.Duration
		}
		if s.NotSeen > 0 {
			b.addNotSeen(s.NotSeen)
		}
	}
	return b.Finish(), nil
}

// addNotSeen adds the record of goroutines' time that has no sample.
func (b *Builder) addNotSeen(d time.Duration) {
	// The frames of a stream are not in the Builder's table, and must not be changed.
	id := uint32(len(b.Profile.Frames))
	b.Profile.Frames = append(slices.Clip(b.Profile.Frames), Frame{Func: tachyon.FuncNotSeen})
	b.Add(Record{State: NotSeen, Stack: []uint32{id}, Wall: d})
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
