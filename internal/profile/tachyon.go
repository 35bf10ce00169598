package profile

import (
	"encoding/binary"
	"encoding/json"
	"iter"
	"slices"
	"sort"
	"time"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// FromTachyon adds up all samples of a file. It keeps one copy of each
// different stack and r's frame table; r may be closed afterwards.
func FromTachyon(r *reader.Reader) (*Profile, error) { return FromSamples(r, r.Samples()) }

// FromSamples is FromTachyon for some samples of a file, or for all of them seen
// by someone else on the way. Samples of one goroutine must be in time order.
func FromSamples(r *reader.Reader, samples iter.Seq2[*reader.Sample, error]) (*Profile, error) {
	m, err := r.Metadata()
	if err != nil {
		return nil, err
	}
	h := r.Header()
	a := newAdder(r.Frames(), micros(h.Interval))
	labels := a.labelSpans(m.Goroutines)
	first := m.FirstWeights()
	threads := map[threadKey]*thread{}
	last := threadKey{}
	var t *thread
	var end uint64
	for s, err := range samples {
		if err != nil {
			return nil, err
		}
		key := threadKey{s.Thread, s.Interpreter}
		if t == nil || key != last {
			if t = threads[key]; t == nil {
				t = &thread{spans: labels[s.Thread]}
				threads[key] = t
			}
			last = key
		}
		since := s.Time - h.Start
		if int64(since) < 0 {
			since = 0
		}
		weight := a.p.Interval
		if t.seen {
			// Times wrap modulo 2^64; what went more than half of that forward
			// went back, and a clock that goes back gives no weight.
			weight = micros(uint64(max(0, int64(s.Time-t.time))))
		}
		if w, ok := first[s.Thread]; ok {
			weight = micros(w)
			delete(first, s.Thread)
		}
		t.seen, t.time = true, s.Time
		end = max(end, since)

		r := Record{Goroutine: s.Thread, System: m.Session != nil && s.Interpreter == 1, Count: 1, Wall: weight}
		if s.Status&tachyon.OnCPU != 0 {
			r.CPU = weight
		}
		a.add(t, &r, s.Status, s.Stack, t.labels(since))
	}
	p := a.p
	p.Start, p.Duration, p.Goroutines = time.UnixMicro(int64(h.Start)), micros(end), len(threads)
	if s := m.Session; s != nil {
		p.Metadata, p.Program = m, s.Program
		if !s.Start.IsZero() {
			p.Start = s.Start
		}
		if s.Duration > 0 {
			p.Duration = s.Duration
		}
	}
	return p, nil
}

type threadKey struct {
	id          uint64
	interpreter uint32
}

// A thread is what is known of one while samples are added up.
type thread struct {
	seen  bool
	time  uint64
	spans []span // in order of from
	at    int    // spans[:at] have begun

	key   recordKey // of the previous sample
	index int       // where that record is, + 1
}

// A span says from when on a goroutine has which labels.
type span struct {
	from   uint64 // µs since the file's start
	labels int    // index into adder.labels
}

// labels returns the labels of a time. Times do not fall.
func (t *thread) labels(at uint64) int {
	for t.at < len(t.spans) && t.spans[t.at].from <= at {
		t.at++
	}
	if t.at == 0 {
		return 0
	}
	return t.spans[t.at-1].labels
}

// An adder makes records.
type adder struct {
	p       *Profile
	stacks  map[string]uint32   // by the ids' bytes
	list    [][]uint32          // the stacks
	labels  []map[string]string // the different sets; the first is empty
	records map[recordKey]int
	buf     []byte
}

type recordKey struct {
	goroutine uint64
	system    bool
	state     string
	stack     uint32
	labels    int
}

func newAdder(frames []Frame, interval time.Duration) *adder {
	return &adder{
		p:       &Profile{Frames: frames, Interval: interval},
		stacks:  map[string]uint32{},
		labels:  []map[string]string{nil},
		records: map[recordKey]int{},
	}
}

// labelSpans gives each goroutine's spans in order.
func (a *adder) labelSpans(list []tachyon.Goroutine) map[uint64][]span {
	sets := map[string]int{"{}": 0, "null": 0}
	out := map[uint64][]span{}
	for _, g := range list {
		for _, l := range g.Labels {
			text, _ := json.Marshal(l.Labels) // keys in order; strings always marshal
			set, ok := sets[string(text)]
			if !ok {
				set = len(a.labels)
				sets[string(text)] = set
				a.labels = append(a.labels, l.Labels)
			}
			out[g.ID] = append(out[g.ID], span{l.From, set})
		}
	}
	for _, spans := range out {
		sort.SliceStable(spans, func(i, j int) bool { return spans[i].from < spans[j].from })
	}
	return out
}

// add adds a sample, whose state, stack and labels s lacks, to the record it
// belongs to.
func (a *adder) add(t *thread, s *Record, status tachyon.Status, stack []uint32, labels int) {
	var leaf *Frame
	if len(stack) > 0 {
		leaf = &a.p.Frames[stack[0]]
	}
	k := recordKey{s.Goroutine, s.System, state(status, leaf), a.stack(stack), labels}
	if t.index == 0 || t.key != k {
		i, ok := a.records[k]
		if !ok {
			i = len(a.p.Records)
			a.records[k] = i
			a.p.Records = append(a.p.Records, Record{
				Goroutine: k.goroutine, System: k.system, State: k.state,
				Labels: a.labels[k.labels], Stack: a.list[k.stack],
			})
		}
		t.key, t.index = k, i+1
	}
	into := &a.p.Records[t.index-1]
	into.Count += s.Count
	into.Wall = add(into.Wall, s.Wall)
	into.CPU = add(into.CPU, s.CPU)
	a.p.Samples += s.Count
}

// stack returns the number of a stack.
func (a *adder) stack(s []uint32) uint32 {
	a.buf = a.buf[:0]
	for _, id := range s {
		a.buf = binary.LittleEndian.AppendUint32(a.buf, id)
	}
	if n, ok := a.stacks[string(a.buf)]; ok {
		return n
	}
	n := uint32(len(a.list))
	a.stacks[string(a.buf)] = n
	a.list = append(a.list, slices.Clone(s))
	return n
}
